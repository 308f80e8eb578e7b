//! The settings of controllers that are about a group's boxes: in a controller's own file, or in
//! the common file of the group, which all its controllers know.

use plexus_config::{CommonFile, ControllerFile, Revoked, is_common_file};

/// The settings of a file about the group's boxes.
pub(crate) struct Settings {
    /// The controller whose file it is; `None`: it is a common file.
    pub(crate) controller: Option<String>,
    pub(crate) drained: Vec<String>,
    pub(crate) revoked: Vec<Revoked>,
}

impl Settings {
    /// Reads them from a file's text; `shown` is what messages call the file.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub(crate) fn parse(shown: &str, text: &str) -> Result<Settings, String> {
        // A common file may have nothing yet.
        if !is_common_file(text) && !text.trim().is_empty() {
            let file = ControllerFile::parse(shown, text).map_err(|e| e.to_string())?;
            let ControllerFile { name, settings, .. } = file;
            let (drained, revoked) = (settings.drained, settings.revoked);
            return Ok(Settings { controller: Some(name), drained, revoked });
        }
        let CommonFile { drained, revoked, .. } =
            CommonFile::parse(shown, text).map_err(|e| e.to_string())?;
        Ok(Settings { controller: None, drained, revoked })
    }
}
