//! Software bills of materials (SBOM) in CycloneDX's format: the crates and npm packages that the program contains, and for
//! the image also its Debian packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::notices::{LicensedPackage, PackageRegistry};
use super::write;
use crate::tool::{output, root};

/// Renders the SBOM of the program. `debian` has the name and version of each Debian package of the image.
pub(super) fn render_sbom(
    version: &str,
    made_at: &str,
    packages: &[LicensedPackage],
    debian: &[(String, String)],
) -> Result<String, String> {
    let checksums = crate_checksums()?;
    let mut components: Vec<Value> = packages.iter().map(|it| describe_package(it, &checksums)).collect();
    components.extend(debian.iter().map(|(name, version)| {
        let purl = format!("pkg:deb/debian/{name}@{}?distro=debian-12", version.replace('+', "%2B"));
        json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    }));
    components.sort_by_key(|it| it["bom-ref"].as_str().map(str::to_owned));
    let format = ["-u", "-d", &format!("@{made_at}"), "+%Y-%m-%dT%H:%M:%SZ"];
    let time = output(Command::new("date").args(format)).ok_or("date failed")?;
    let sbom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application", "bom-ref": "berth", "name": "berth", "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
    });
    serde_json::to_string_pretty(&sbom).map(|text| text + "\n").map_err(|error| error.to_string())
}

pub(super) fn write_sbom(
    to: &Path,
    name: &str,
    staged: &super::StagedFiles,
    debian: &[(String, String)],
) -> Result<String, String> {
    write(&to.join(name), &render_sbom(&staged.version, &staged.made_at, &staged.packages, debian)?)?;
    Ok(name.to_owned())
}

fn describe_package(package: &LicensedPackage, checksums: &BTreeMap<(String, String), String>) -> Value {
    let LicensedPackage { registry, name, version, licence, .. } = package;
    let purl = match registry {
        PackageRegistry::Cargo => format!("pkg:cargo/{name}@{version}"),
        PackageRegistry::Npm => format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
    };
    let mut component = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
        // Some crates still use the notation from before SPDX expressions.
        "licenses": [{"expression": licence.replace('/', " OR ")}],
    });
    let checksum = checksums.get(&(name.clone(), version.clone()));
    if let Some(sha256) = checksum.filter(|_| *registry == PackageRegistry::Cargo) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
    }
    component
}

/// Returns the checksums of the crates in Cargo.lock, by name and version.
fn crate_checksums() -> Result<BTreeMap<(String, String), String>, String> {
    let text = std::fs::read_to_string(root().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let lock: toml::Table = text.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    let read =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::notices;

    #[test]
    fn sbom_lists_linked_crates_with_licence_and_checksum() {
        let packages = notices::crate_packages().unwrap();
        let debian = [("git".to_owned(), "1:2.39.5-0+deb12u3".to_owned())];
        let sbom = render_sbom("0.1.0", "1000000000", &packages, &debian).unwrap();
        let sbom: Value = serde_json::from_str(&sbom).unwrap();
        assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert_eq!(sbom["metadata"]["timestamp"], "2001-09-09T01:46:40Z");
        let components = sbom["components"].as_array().unwrap();
        assert_eq!(components.len(), packages.len() + 1);
        let named = |name: &str| components.iter().find(|it| it["name"] == name).unwrap();
        let tokio = named("tokio");
        assert_eq!(tokio["licenses"], json!([{"expression": "MIT"}]));
        assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert_eq!(named("git")["purl"], "pkg:deb/debian/git@1:2.39.5-0%2Bdeb12u3?distro=debian-12");
        let mut refs: Vec<_> = components.iter().map(|it| it["bom-ref"].as_str().unwrap()).collect();
        refs.dedup();
        assert_eq!(refs.len(), components.len(), "sorted, and each only once");
    }
}
