//! Failure categories.

use serde::{Deserialize, Serialize};

macro_rules! categories {
    ($($name:ident $text:literal $means:literal;)*) => {
        /// The area in which something has to be fixed. If a tool cannot reach its own service (a cluster, a daemon, a
        /// database), the failure belongs to the category of that tool; other connection failures belong to the
        /// network.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Category {
            $(#[doc = $means] $name,)*
        }

        impl Category {
            pub const ALL: &[Category] = &[$(Category::$name,)*];

            /// The category's name in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Category::$name => $text,)*
                }
            }

            /// One sentence that explains the category to users.
            pub const fn means(self) -> &'static str {
                match self {
                    $(Category::$name => $means,)*
                }
            }
        }
    };
}

categories! {
    Compile "compile" "The sources do not compile, link or parse.";
    Dependency "dependency" "A package, module or library is missing or incompatible.";
    Test "test" "Tests ran, and some failed.";
    Git "git" "git rejected an operation, or did not find a ref or repository.";
    Container "container" "A problem with an image or the container engine.";
    Kubernetes "kubernetes" "The cluster cannot be reached, rejects a request, or the workload does not start.";
    Terraform "terraform" "Terraform rejects its configuration or its state.";
    Database "database" "The database cannot be reached, or rejects a statement.";
    Network "network" "A server cannot be reached, or returned an error.";
    Tls "tls" "A certificate or a TLS handshake was rejected.";
    Credentials "credentials" "Credentials are missing, invalid or lack a permission.";
    Disk "disk" "No disk space or quota left, or the file system is read-only.";
    Memory "memory" "Out of memory.";
    Permission "permission" "The operating system denied an operation.";
    Timeout "timeout" "A timeout expired.";
    Command "command" "A command does not exist or cannot be executed.";
    File "file" "A required file does not exist.";
    Configuration "configuration" "A setting is missing, or a configuration file cannot be parsed.";
    Crash "crash" "A program crashed, or was killed by a signal.";
    Runner "runner" "The connection to the runner was lost.";
    Decision "decision" "An approval was rejected or expired.";
}
