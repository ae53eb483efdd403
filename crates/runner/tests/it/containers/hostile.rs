//! Steps that try to reach more of the machine than they may.

use super::{ContainerFixture, container, in_container};
use crate::fixture::{expect_failure, expect_success, step};
use berth_api::runner::{AttemptAssignment, FailureCause, Network};
use berth_testkit::podman::IMAGE;
use serde_json::{Value, json};

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
}

const SECRET: &str = "[root-key-of-the-machine";

/// Runs a build that must not show the content of a file of the machine, and returns its log with the outcome.
fn build_without_leak(it: &ContainerFixture, id: &str, file: &str, params: Value) -> String {
    let outcome = it.fixture.run(it.image_build(id, file, params));
    let text = format!("{}{outcome:?}", it.fixture.link.text_of(id));
    assert!(!text.contains(&SECRET[1..]), "{id}: {text}");
    text
}

#[test]
fn build_cannot_read_files_of_the_machine() {
    let Some(it) = ContainerFixture::start() else { return };
    let secret = it.podman.dir().join("root.key");
    std::fs::write(&secret, SECRET).expect("file");
    let params = json!({ "tags": ["registry.test/x:1"], "push": false });
    // The preprocessor of files that end in `.in`.
    let include = format!("#include \"{}\"\nFROM scratch\nADD rootfs.tar /\n", secret.display());
    it.fixture.link.store_artifact("Linked.in", include.as_bytes());
    it.fixture.link.set_symlink("Linked", "Linked.in");
    for file in ["Linked.in", "Linked"] {
        let mut build =
            it.image_build(file, "", json!({ "tags": ["registry.test/x:1"], "push": false, "file": file }));
        build.needs_artifacts.push("Linked.in".to_owned());
        let outcome = it.fixture.run(build);
        let log = it.fixture.link.text_of(file);
        assert!(!log.contains(&SECRET[1..]), "{log}");
        expect_success(&outcome);
    }
    // Transports that read files and other storages of the machine.
    let storage = format!(
        "containers-storage:[overlay@{0}/root+{0}/run]localhost/busybox:1",
        it.podman.dir().display()
    );
    let archive = format!("docker-archive:{}", it.podman.dir().join("rootfs.tar").display());
    for (index, source) in
        [storage.as_str(), &archive, "dir:/etc", "docker-daemon:busybox:1"].iter().enumerate()
    {
        let from = format!("FROM {source}\nRUN echo has-run\n");
        let text = build_without_leak(&it, &format!("from-{index}"), &from, params.clone());
        assert!(text.contains("Failed") && !text.contains("\nhas-run"), "{source}: {text}");
        let copy = format!("FROM scratch\nADD rootfs.tar /\nCOPY --from={source} / /x\nRUN echo has-run\n");
        let text = build_without_leak(&it, &format!("copy-{index}"), &copy, params.clone());
        assert!(text.contains("Failed") && !text.contains("\nhas-run"), "{source}: {text}");
    }
    // An ignore file without valid patterns is shown.
    it.fixture.link.set_symlink(".containerignore", &secret.display().to_string());
    let text = build_without_leak(&it, "ignore", "FROM scratch\nADD rootfs.tar /\n", params);
    assert!(text.contains(".containerignore is a link that leads out of the context"), "{text}");
    it.check_nothing_left();
}

#[test]
fn build_cannot_push_to_the_machine() {
    let Some(it) = ContainerFixture::start() else { return };
    let victim = it.podman.dir().join("victim");
    it.fixture.link.set_symlink("evil", &victim.display().to_string());
    for tag in
        ["docker-archive:evil", "oci-archive:evil", "dir:evil", "oci:evil", "docker-daemon:evil", "busybox:1"]
    {
        let outcome =
            it.fixture.run(it.image_build(tag, "FROM scratch\nADD rootfs.tar /\n", json!({ "tags": [tag] })));
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::Invalid && detail.contains("has no registry"), "{tag}: {detail}");
    }
    let outcome = it.fixture.run(step("option", "image_build", json!({ "tags": ["--all"] })));
    assert!(expect_failure(&outcome).1.contains("begins with `-`"));
    assert!(!victim.exists());
    let cut_off = step("network", "image_build", json!({ "tags": ["registry.test/x:1"] }));
    let cut_off = AttemptAssignment { network: Network::None, ..cut_off };
    assert!(expect_failure(&it.fixture.run(cut_off)).1.contains("the step has `network: none`"));
}

#[test]
fn built_image_does_not_replace_an_image_of_the_machine() {
    let Some(it) = ContainerFixture::start() else { return };
    let before = it.podman.text(&["images", "--all", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"]);
    let file = "FROM scratch\nADD rootfs.tar /\nRUN echo replaced >/etc/version\n";
    let params = json!({ "tags": [IMAGE, "docker.io/library/node:22"], "push": false });
    expect_success(&it.fixture.run(it.image_build("build", file, params)));
    assert_eq!(it.podman.text(&["images", "--all", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"]), before);
    expect_success(&it.fixture.run(in_container("use", "cat /etc/version 2>/dev/null || echo own")));
    assert!(it.fixture.link.text_of("use").contains("\nown\n"));
    // An image of the machine with the name of another registry was not pulled from there.
    it.podman.text(&["tag", IMAGE, "127.0.0.1:1/library/node:22"]);
    let mut step = in_container("planted", "echo ran");
    step.container = Some(container("127.0.0.1:1/library/node:22"));
    let outcome = it.fixture.run(step);
    assert!(format!("{outcome:?}").contains("cannot pull the image"), "{outcome:?}");
    it.check_nothing_left();
}
