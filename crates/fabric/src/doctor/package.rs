//! The command that installs something, in the words of this distribution.

use crate::discover::tree::Tree;

/// A family of distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Debian and what is made of it.
    Debian,
    /// Ubuntu, which has a command of its own for drivers.
    Ubuntu,
    /// Fedora, Red Hat Enterprise Linux and the like.
    Fedora,
    /// Anything else.
    Other,
}

impl Family {
    /// As `/etc/os-release` says.
    pub(super) fn of(tree: &Tree) -> Self {
        let release = tree.text("etc/os-release").unwrap_or_default();
        let value = |key: &str| {
            let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches('"').to_string()
        };
        let names = format!("{} {}", value("ID"), value("ID_LIKE"));
        let is = |name: &str| names.split_whitespace().any(|known| known == name);
        match () {
            () if is("ubuntu") => Family::Ubuntu,
            () if is("debian") => Family::Debian,
            () if is("fedora") || is("rhel") => Family::Fedora,
            () => Family::Other,
        }
    }

    /// Installs one of these packages.
    pub(super) fn install(self, debian: &str, fedora: &str) -> String {
        match self {
            Family::Debian | Family::Ubuntu => format!("sudo apt install {debian}"),
            Family::Fedora => format!("sudo dnf install {fedora}"),
            Family::Other => {
                format!("sudo apt install {debian} (Debian, Ubuntu); sudo dnf install {fedora} (Fedora)")
            }
        }
    }

    /// Installs the GPU driver.
    pub(super) fn install_driver(self) -> String {
        match self {
            Family::Ubuntu => "sudo ubuntu-drivers install, then restart".to_string(),
            _ => {
                let command = self.install("nvidia-driver", "akmod-nvidia xorg-x11-drv-nvidia-cuda");
                format!("{command}, then restart (Debian: enable 'contrib non-free'; Fedora: RPM Fusion)")
            }
        }
    }
}
