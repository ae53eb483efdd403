//! `berth registry new`: creates an example registry.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_core::registry::RegistryName;

use super::ScaffoldLanguage;
use crate::cmd::print_line;

/// Path in the new directory, and content. `{{name}}` is the registry's name.
type TemplateFile = (&'static str, &'static str);

const TYPESCRIPT: &[TemplateFile] = &[
    ("README.md", include_str!("typescript/README.md")),
    (".gitignore", include_str!("typescript/gitignore")),
    ("package.json", include_str!("typescript/package.json")),
    ("tsconfig.json", include_str!("typescript/tsconfig.json")),
    ("src/main.ts", include_str!("typescript/main.ts")),
    ("src/protocol.ts", include_str!("typescript/protocol.ts")),
    ("src/node.d.ts", include_str!("typescript/node.d.ts")),
    ("src/steps/greet.ts", include_str!("typescript/greet.ts")),
    ("src/steps/rollout.ts", include_str!("typescript/rollout.ts")),
    ("src/steps/wipe.ts", include_str!("typescript/wipe.ts")),
    ("test/steps.test.mjs", include_str!("typescript/steps.test.mjs")),
];

const SHELL: &[TemplateFile] = &[
    ("README.md", include_str!("shell/README.md")),
    ("berth-registry.yaml", include_str!("shell/berth-registry.yaml")),
    ("registry.sh", include_str!("shell/registry.sh")),
    ("test.sh", include_str!("shell/test.sh")),
    ("steps/greet.json", include_str!("shell/greet.json")),
    ("steps/greet.sh", include_str!("shell/greet.sh")),
    ("steps/rollout.json", include_str!("shell/rollout.json")),
    ("steps/rollout.sh", include_str!("shell/rollout.sh")),
    ("steps/wipe.json", include_str!("shell/wipe.json")),
    ("steps/wipe.sh", include_str!("shell/wipe.sh")),
];

pub(super) fn run(name: &RegistryName, language: ScaffoldLanguage) -> anyhow::Result<ExitCode> {
    let dir = Path::new(name.as_str());
    if dir.symlink_metadata().is_ok() {
        anyhow::bail!("{name} already exists; choose another name or remove it");
    }
    let (templates, next) = match language {
        ScaffoldLanguage::Typescript => (TYPESCRIPT, "npm install && npm test"),
        ScaffoldLanguage::Shell => (SHELL, "sh ./test.sh"),
    };
    for (path, text) in templates {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        std::fs::write(&path, text.replace("{{name}}", name.as_str()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    print_line(&format!(
        "Created {name}/ with three steps: greet, rollout and wipe. Next:\n\n  cd {name}\n  {next}\n  berth registry test \
         --step greet --params '{{\"who\": \"world\"}}'\n\nSee README.md for details."
    ))?;
    Ok(ExitCode::SUCCESS)
}
