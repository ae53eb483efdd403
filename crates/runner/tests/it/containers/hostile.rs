//! Steps that try to reach more of the machine than they may.

use super::{ContainerFixture, container, in_container};
use crate::fixture::{expect_failure, expect_success, step};
use berth_api::runner::{AttemptAssignment, FailureCause, Network};
use serde_json::json;

#[test]
fn container_cannot_reach_the_machine() {
    let Some(it) = ContainerFixture::start() else { return };
    let secret = it.podman.dir().join("secret-of-the-machine");
    std::fs::write(&secret, "machine").expect("file");
    let secret = secret.display();
    let socket = it.podman.socket();
    let run = format!(
        "set +e\n\
         ln -s {secret} link; cat link {secret} /berth/workspace/../../..{secret}\n\
         ln -s / root; cat root{secret}\n\
         mount -t tmpfs none /tmp && echo MOUNTED\n\
         mount --bind / /tmp && echo BOUND\n\
         mknod /tmp/disk b 254 0 && echo DEVICE\n\
         chroot /proc/1/root true && echo CHROOT\n\
         [ -e {socket} ] && echo SOCKET\n\
         find / -name '*.sock' 2>/dev/null | grep . && echo SOCKETS\n\
         echo 1 >/proc/sys/kernel/sysrq && echo SYSCTL\n\
         ps | grep -c podman\n\
         grep CapEff /proc/self/status\n\
         rm -f /berth/output && echo REMOVED; ln -sf {secret} /berth/output && echo REPLACED\n\
         echo x=1 >/berth/output; exit 0",
        socket = socket.display()
    );
    let mut hostile = in_container("a", &run);
    hostile.outputs = vec!["x".to_owned()];
    let outcome = it.fixture.run(hostile);
    let log = it.fixture.link.text_of("a");
    assert_eq!(expect_success(&outcome)["x"], "1", "{log}");
    for word in
        ["machine\n", "MOUNTED", "BOUND", "DEVICE", "CHROOT", "SOCKET", "SYSCTL", "REMOVED", "REPLACED"]
    {
        assert!(!log.contains(word), "{word}: {log}");
    }
    // CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID and NET_BIND_SERVICE.
    assert!(log.contains("CapEff:\t00000000000004eb\n"), "{log}");
    it.check_nothing_left();
}

#[test]
fn hostile_images_users_and_networks_are_refused() {
    let Some(it) = ContainerFixture::start() else { return };
    for image in ["--privileged", "-v/:/host", "busybox -v /:/host", "localhost/../busybox", ""] {
        let mut step = in_container(&format!("image {image}"), "echo ran");
        step.container = Some(container(image));
        let outcome = it.fixture.run(step);
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::Invalid && detail.contains("the image"), "{image}: {detail}");
    }
    let host = AttemptAssignment { network: Network::Host, ..in_container("host", "echo ran") };
    assert!(expect_failure(&it.fixture.run(host)).1.contains("not allowed in containers of this runner"));
    let mut variable = in_container("variable", "echo ran");
    variable.env = [("LD_PRELOAD".to_owned(), "x".to_owned())].into();
    assert!(expect_failure(&it.fixture.run(variable)).1.contains("reserved"));
    // A line break in a value does not make another variable.
    let mut injected = in_container("injected", "echo \"injected: ${INJECTED-no}\"");
    injected.env = [("VALUE".to_owned(), "a\nINJECTED=1".to_owned())].into();
    expect_success(&it.fixture.run(injected));
    assert!(it.fixture.link.text_of("injected").contains("injected: no\n"));
    it.check_nothing_left();
}

#[test]
fn build_context_cannot_leave_the_workspace() {
    let Some(it) = ContainerFixture::start() else { return };
    for context in ["..", "../..", "/etc", "missing"] {
        let params = json!({ "tags": ["localhost/x:1"], "context": context, "push": false });
        let outcome = it.fixture.run(step(&format!("context {context}"), "image_build", params));
        assert!(expect_failure(&outcome).1.contains("which is not in the workspace"), "{context}");
    }
    let params = json!({ "tags": ["--all"], "push": false });
    assert!(
        expect_failure(&it.fixture.run(step("tag", "image_build", params))).1.contains("begins with `-`")
    );
}
