/** Pipeline definitions for common stacks. A browser test checks that the server accepts them. */
import { FIRST_PIPELINE } from "../snippets";
import DOCKER_COMPOSE from "./templates/docker-compose.yaml?raw";
import KUBECTL from "./templates/kubectl.yaml?raw";
import STATIC_SITE from "./templates/static-site.yaml?raw";
import SYSTEMD from "./templates/systemd.yaml?raw";

export type PipelineTemplate = {
  name: string;
  /** Suggested folder below `.berth`, which becomes the pipeline's slug. */
  slug: string;
  text: string;
  /** What to change or add before it can run. */
  needs: string[];
};

const SSH_NEEDS = [
  "Replace the hosts in `vars` with yours",
  "Store a private SSH key as the secret `DEPLOY_SSH_KEY`",
  "Commit the host keys: `ssh-keyscan HOST > deploy/known_hosts`",
];

export const TEMPLATES: PipelineTemplate[] = [
  {
    name: "Any commands",
    slug: "shop",
    text: FIRST_PIPELINE,
    needs: ["Replace the step with the commands that deploy your software"],
  },
  { name: "Static site over ssh", slug: "site", text: STATIC_SITE, needs: SSH_NEEDS },
  {
    name: "Docker Compose",
    slug: "app",
    text: DOCKER_COMPOSE,
    needs: [
      ...SSH_NEEDS,
      "Use the variable `IMAGE` as the image in `compose.yaml`, and your registry in the step",
    ],
  },
  {
    name: "kubectl",
    slug: "app",
    text: KUBECTL,
    needs: [
      "Commit the manifests as `deploy/app.yaml`, with `IMAGE` as the image",
      "Store the kubeconfig as the secret `DEPLOY_KUBECONFIG`",
      "Install `kubectl` on the runner’s machine",
    ],
  },
  {
    name: "systemd service over ssh",
    slug: "service",
    text: SYSTEMD,
    needs: [...SSH_NEEDS, "Allow the user to run `sudo systemctl restart UNIT`"],
  },
];

/** Deployed without a repository; its steps only print a line. */
export const EXAMPLE = {
  slug: "example",
  commitId: "v1",
  text: FIRST_PIPELINE.replace("name: Shop", "name: Example").replace("  tracks: main\n", ""),
};
