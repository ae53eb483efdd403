//! What kind of thing went wrong: the part somebody has to look at.

use serde::{Deserialize, Serialize};

macro_rules! categories {
    ($($name:ident $text:literal $means:literal;)*) => {
        /// The part somebody has to look at. Tools that report their own service missing (a cluster, a daemon, a
        /// database) belong to the tool, all others to the network.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Category {
            $(#[doc = $means] $name,)*
        }

        impl Category {
            pub const ALL: &[Category] = &[$(Category::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Category::$name => $text,)*
                }
            }

            /// One sentence for people.
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
    Dependency "dependency" "A package, module or library is missing or does not fit.";
    Test "test" "Tests ran, and some failed.";
    Git "git" "git refused, or did not find what it was asked for.";
    Container "container" "An image, or what runs containers.";
    Kubernetes "kubernetes" "The cluster was not reached, refused, or the workload does not come up.";
    Terraform "terraform" "Terraform refused its configuration or its state.";
    Database "database" "The database was not reached, or refused a statement.";
    Network "network" "Somebody was not reached, or answered with an error.";
    Tls "tls" "A certificate or a handshake was not accepted.";
    Credentials "credentials" "Somebody asked who we are, and was not satisfied.";
    Disk "disk" "No space, no quota, or a file system that is read-only.";
    Memory "memory" "Not enough memory.";
    Permission "permission" "The machine itself did not permit it.";
    Timeout "timeout" "It took too long.";
    Command "command" "What was to be run is not there, or cannot be run as it is written.";
    File "file" "A file that is needed is not there.";
    Configuration "configuration" "A setting is missing, or a file of settings cannot be read.";
    Crash "crash" "A program ended by an error of its own or by a signal.";
    Runner "runner" "The machine that ran the step went away.";
    Decision "decision" "A person said no, or nobody answered.";
}
