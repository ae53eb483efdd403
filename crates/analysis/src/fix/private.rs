//! Detects files that contain secrets, by name and by content. Such files are never shown to an analyzer.

const DIRECTORIES: &[&str] =
    &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", "secrets", ".secrets", "private"];
const NAME_PREFIXES: &[&str] = &[
    ".env",
    "env.",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credential",
    ".credential",
    "secret",
    ".secret",
    "password",
    ".password",
    ".htpasswd",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc",
    ".pypirc",
    "pip.conf",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfig",
    ".vault",
    "vault.",
    "kubeconfig",
    "service-account",
    "service_account",
    "master.key",
    "terraform.rc",
    ".terraformrc",
];
const NAME_SUFFIXES: &[&str] = &[
    ".env",
    ".pem",
    ".key",
    ".p8",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".asc",
    ".gpg",
    ".age",
    ".tfstate",
    ".tfstate.backup",
    ".tfvars",
    ".tfvars.json",
    ".secret",
    ".secrets",
    ".enc",
    ".ovpn",
    "-credentials.json",
    "_rsa",
];
/// Text that occurs in files with secrets, whatever their names.
const CONTENT_MARKERS: &[&str] =
    &["PRIVATE KEY-----", "$ANSIBLE_VAULT;", "PuTTY-User-Key-File", "\"private_key\":"];

/// Whether a file probably contains secrets. Names are compared case-insensitively.
pub fn is_private(path: &str, content: &str) -> bool {
    let lower = path.to_lowercase();
    let (directories, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    directories.split('/').any(|part| DIRECTORIES.contains(&part))
        || NAME_PREFIXES.iter().any(|known| name.starts_with(known))
        || NAME_SUFFIXES.iter().any(|known| name.ends_with(known))
        || CONTENT_MARKERS.iter().any(|words| content.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_detected_by_name_and_content() {
        for path in [
            ".env",
            "app/.env.production",
            "prod.env",
            "ops/Server.PEM",
            ".ssh/config",
            "secrets/db.yaml",
            "deploy/id_ed25519",
            ".npmrc",
            "terraform.tfstate",
            "config/master.key",
            "gcp-credentials.json",
        ] {
            assert!(is_private(path, ""), "{path}");
        }
        for path in ["deploy.sh", "src/environment.rs", "Makefile", "keys.md", "docs/private-use.md"] {
            assert!(!is_private(path, "echo hi"), "{path}");
        }
        assert!(is_private("notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb"));
    }
}
