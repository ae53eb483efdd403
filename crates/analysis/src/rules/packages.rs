//! Rules for package managers, modules and shared libraries.

use crate::category::Category::{Command, Dependency};
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "npm-lock",
        category: Dependency,
        patterns: &[
            r"can only install packages (?:when your|with an existing) package(?P<what>-lock\.json|\.json and package-lock\.json)",
            r"ERR_PNPM_(?P<what>OUTDATED_LOCKFILE|NO_LOCKFILE)",
            r"(?P<what>Your lockfile needs to be updated|The lockfile would have been modified by this install)",
        ],
        says: "The lock file is missing or out of sync with package.json.",
        advice: "Run the install locally without `ci` or `--frozen-lockfile`, and commit the lock file.",
        ..CAUSE
    },
    Rule {
        id: "npm-peers",
        category: Dependency,
        patterns: &[
            r"npm (?:ERR!|error) (?:code )?(?P<what>ERESOLVE.*)",
            r"(?P<what>ERESOLVE (?:unable to resolve|could not resolve).*)",
            r"(?P<what>ERR_PNPM_PEER_DEP_ISSUES)",
        ],
        says: "Packages require conflicting versions of a peer dependency ({what}).",
        advice: "Choose compatible versions; the lines below name them.",
        after: 3,
        ..CAUSE
    },
    Rule {
        id: "npm-not-found",
        category: Dependency,
        patterns: &[
            r"npm (?:ERR!|error) 404 .*?'(?P<what>[^']+)'",
            r"npm (?:ERR!|error) (?:404 .*?(?:GET|PUT) |notarget No matching version found for )(?P<what>\S+)",
            r"npm (?:ERR!|error) code (?P<what>E404|ETARGET|ENOTCACHED)",
            r"(?P<what>ERR_PNPM_(?:NO_MATCHING_VERSION|FETCH_404)\S*)",
            r"Couldn't find (?:package|any versions for) (?P<what>\S+)",
        ],
        says: "The package or version does not exist in the registry: {what}.",
        advice: "Fix name and version, or the registry in .npmrc.",
        ..CAUSE
    },
    Rule {
        id: "npm-script",
        category: Command,
        patterns: &[
            r"Missing script: \x22?(?P<name>[^\x22\s]+)",
            r"ERR_PNPM_NO_SCRIPT\S*\s+Missing script: (?P<name>\S+)",
            r"error Command \x22(?P<name>[^\x22]+)\x22 not found",
        ],
        says: "package.json has no script \"{name}\".",
        advice: "Fix the name in the step, or add the script.",
        ..CAUSE
    },
    Rule {
        id: "pip-not-found",
        category: Dependency,
        patterns: &[
            r"No matching distribution found for (?P<what>\S+)",
            r"Could not find a version that satisfies the requirement (?P<what>\S+)",
            r"because (?P<what>\S+) was not found in the package registry",
        ],
        says: "pip found no matching version of {what}.",
        advice: "Fix name and version, check the required Python version, or set the index.",
        ..CAUSE
    },
    Rule {
        id: "pip-conflict",
        category: Dependency,
        patterns: &[
            r"(?P<what>ResolutionImpossible)",
            r"Cannot install (?P<what>.+) because these package versions have conflicting dependencies",
            r"(?P<what>No solution found when resolving dependencies)",
        ],
        says: "Python packages have conflicting requirements: {what}.",
        advice: "Relax or align the versions named above.",
        ..CAUSE
    },
    Rule {
        id: "pip-build",
        category: Dependency,
        patterns: &[
            r"Failed (?:building wheel for|to build) (?P<what>\S+)",
            r"(?P<what>metadata-generation-failed|subprocess-exited-with-error)",
            r"Could not build wheels for (?P<what>[^,]+)",
        ],
        says: "A Python package could not be built from source: {what}.",
        advice: "Install its build dependencies (a compiler, headers), or use a version with a prebuilt wheel.",
        ..CAUSE
    },
    Rule {
        id: "python-module",
        category: Dependency,
        patterns: &[
            r"ModuleNotFoundError: No module named '?(?P<name>[^'\s]+)",
            r"ImportError: (?:No module named|cannot import name) '?(?P<name>[^'\s]+)",
            r"No module named (?P<name>[\w.]+)$",
        ],
        says: "Python cannot find the module {name}.",
        advice: "Add it to the requirements and install them in this step; check the virtual environment.",
        ..CAUSE
    },
    Rule {
        id: "node-module",
        category: Dependency,
        patterns: &[
            r"Cannot find (?:module|package) '(?P<name>[^']+)'",
            r"(?:Error \[)?ERR_MODULE_NOT_FOUND\]?:? (?P<name>.+)",
            r"Failed to (?:load|resolve) (?:url|import) \x22?(?P<name>[^\x22\s]+)",
        ],
        says: "Node cannot find the module {name}.",
        advice: "Install the dependencies in this step, or fix the import path.",
        ..CAUSE
    },
    Rule {
        id: "cargo-version",
        category: Dependency,
        patterns: &[
            r"failed to select a version for (?:the requirement )?`(?P<what>[^`]+)`",
            r"no matching package named `(?P<what>[^`]+)` found",
            r"(?P<what>no matching package found)",
        ],
        after: 3,
        says: "cargo found no matching version of {what}.",
        advice: "Fix the version or the source in Cargo.toml; `cargo update` refreshes the lock file.",
        ..CAUSE
    },
    Rule {
        id: "cargo-locked",
        category: Dependency,
        patterns: &[
            r"lock file (?P<file>\S+) needs to be updated but --(?:locked|frozen) was passed",
            r"cannot update the lock file (?P<file>\S+) because --(?:locked|frozen)",
        ],
        says: "The lock file is out of sync with Cargo.toml ({file}).",
        advice: "Run `cargo update --workspace` locally and commit Cargo.lock.",
        ..CAUSE
    },
    Rule {
        id: "go-module",
        category: Dependency,
        patterns: &[
            r"no required module provides package (?P<what>[^\s;]+)",
            r"missing go\.sum entry (?:for module providing package |needed .* )?(?P<what>\S*)",
            r"cannot find module providing package (?P<what>\S+)",
            r"(?P<what>updates to go\.mod needed)",
        ],
        says: "go.mod does not provide {what}.",
        advice: "Run `go mod tidy` and commit go.mod and go.sum.",
        ..CAUSE
    },
    Rule {
        id: "java-dependency",
        category: Dependency,
        patterns: &[
            r"Could not (?:resolve dependencies for project|find artifact|resolve all (?:files|dependencies|artifacts) for) (?P<what>\S+)",
            r"Could not find (?P<what>[\w.-]+:[\w.-]+:[\w.-]+)",
        ],
        says: "A dependency of the Java build was not found: {what}.",
        advice: "Fix its coordinates, or add the repository that hosts it.",
        ..CAUSE
    },
    Rule {
        id: "apt-package",
        category: Dependency,
        patterns: &[
            r"E: Unable to locate package (?P<name>\S+)",
            r"E: Package '(?P<name>[^']+)' has no installation candidate",
            r"E: Version '[^']*' for '(?P<name>[^']+)' was not found",
            r"unable to select packages:\s*(?P<name>\S*)",
        ],
        says: "The package manager cannot find {name}.",
        advice: "Run `apt-get update` first, and check the name for this release.",
        ..CAUSE
    },
    Rule {
        id: "ruby-gem",
        category: Dependency,
        patterns: &[
            r"Could not find gem '(?P<what>[^']+)'",
            r"Bundler could not find compatible versions for gem \x22(?P<what>[^\x22]+)",
            r"Could not find (?P<what>\S+) in (?:any of the sources|locally installed gems)",
            r"cannot load such file -- (?P<what>\S+)",
        ],
        says: "Ruby cannot find the gem {what}.",
        advice: "Run `bundle install` in this step, or fix the Gemfile.",
        ..CAUSE
    },
    Rule {
        id: "perl-module",
        category: Dependency,
        patterns: &[r"Can't locate (?P<name>\S+\.pm) in @INC"],
        says: "Perl cannot find the module {name}.",
        advice: "Install it on the machine that runs the step, or add its directory with -I.",
        ..CAUSE
    },
    Rule {
        id: "php-dependency",
        category: Dependency,
        patterns: &[
            r"Your requirements could not be resolved to an installable set of packages(?P<what>)",
            r"Class \x22(?P<what>[^\x22]+)\x22 not found",
            r"Failed opening required '(?P<what>[^']+)'",
        ],
        says: "PHP cannot find a dependency: {what}.",
        advice: "Run `composer install` in this step, or fix composer.json.",
        ..CAUSE
    },
    Rule {
        id: "wrong-runtime",
        category: Dependency,
        patterns: &[
            r"(?:npm (?:ERR!|error) code |error )?(?P<what>EBADENGINE)",
            r"(?P<what>requires a different Python: .+)",
            r"(?P<what>rustc \S+ is not supported by the following packages?)",
            r"(?P<what>requires go >= \S+)",
            r"(?P<what>The engine \x22\w+\x22 is incompatible with this module)",
        ],
        says: "A dependency needs a different version of the language: {what}.",
        advice: "Install the required version, or use an older version of the dependency.",
        ..GENERAL
    },
    Rule {
        id: "shared-library",
        category: Dependency,
        patterns: &[
            r"error while loading shared libraries: (?P<name>[^\s:]+)",
            r"(?P<name>\S+): cannot open shared object file",
            r"version `(?P<name>[A-Z]+\w*_[\d.]+)' not found",
        ],
        says: "A program cannot start because a shared library is missing: {name}.",
        advice: "Install the library on the machine that runs the step, or build for its OS release.",
        ..CAUSE
    },
];
