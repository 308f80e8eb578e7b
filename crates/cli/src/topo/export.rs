//! `plexus topo export`: a topology for other programs, or as a drawing.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use plexus_analysis::exchange::{self, Exported, Format};
use plexus_lab::box_files;
use plexus_topo::Topology;

use super::import;
use crate::exit::{Failure, Outcome};
use crate::files::{write_new, write_private};
use crate::text::print;

/// Arguments of `plexus topo export`.
#[derive(Args)]
pub(crate) struct Export {
    /// The topology file
    file: PathBuf,
    /// The format: graphml, dot, json (node-link, as networkx has it), containerlab (a lab of
    /// containers) or svg (a drawing)
    #[arg(long, value_parser = target)]
    format: Target,
    /// With containerlab: write the lab into this folder, with the files that its containers read
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What a topology is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Graph(Format),
    Svg,
}

fn target(text: &str) -> Result<Target, String> {
    match text {
        "svg" => Ok(Target::Svg),
        "mininet" => Err("files of Mininet are only read".to_string()),
        _ => import::format(text).map(Target::Graph).map_err(|help| format!("{help}, or svg")),
    }
}

impl Export {
    /// Reads the file, prints or writes what it becomes, and tells what is left out on standard
    /// error.
    pub(crate) fn run(&self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        let is_lab = self.format == Target::Graph(Format::Containerlab);
        if self.out.is_some() && !is_lab {
            return Err(Failure::unusable("--out belongs to --format containerlab"));
        }
        let text = match self.format {
            Target::Svg => exchange::svg(&topology).map_err(Failure::unusable)?,
            Target::Graph(format) => {
                // `target` lets no other format pass.
                let made = exchange::export(&topology, format);
                let Exported { text, notes } =
                    made.ok_or_else(|| Failure::unusable("this format is only read"))?;
                for note in &notes {
                    eprintln!("plexus: {}: {note}", self.file.display());
                }
                text
            }
        };
        match &self.out {
            Some(folder) => write_lab(&topology, &text, folder),
            None => print(&text),
        }
    }
}

/// Writes a lab and the files that its containers read, none of them over another.
fn write_lab(topology: &Topology, text: &str, folder: &Path) -> Outcome {
    let files = box_files(topology).map_err(Failure::unusable)?;
    let making = |e| Failure::unusable(format!("making {}: {e}", folder.display()));
    fs::create_dir_all(folder).map_err(making)?;
    let lab = folder.join(format!("{}.clab.yml", topology.name));
    write_new(&lab, text).map_err(Failure::unusable)?;
    for file in &files {
        let path = folder.join(&file.name);
        let write = if file.is_secret { write_private } else { write_new };
        write(&path, &file.text).map_err(Failure::unusable)?;
    }
    let count = files.len();
    eprintln!("plexus: wrote {} and {count} files that its containers read", lab.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        assert_eq!(target("svg"), Ok(Target::Svg));
        assert_eq!(target("dot"), Ok(Target::Graph(Format::Dot)));
        assert_eq!(target("containerlab"), Ok(Target::Graph(Format::Containerlab)));
        let told = "it is graphml, dot, json, containerlab or mininet, or svg";
        assert_eq!(target("png"), Err(told.to_string()));
        assert_eq!(target("mininet"), Err("files of Mininet are only read".to_string()));
    }
}
