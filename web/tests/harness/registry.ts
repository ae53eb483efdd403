/** A step registry implemented as shell scripts in a Git repository. */
import { Repository } from "./repository";
import type { World } from "./world";

export type StepMetadata = { stepType: string; paramsJsonSchema?: object; [name: string]: unknown };

/** Creates the repository. `onCall` is the shell code of every step: `$input` is its task, `$output` the file for its result. */
export function createRegistry(
  world: World,
  name: string,
  steps: StepMetadata[],
  onCall: string,
  build = "true",
): Repository {
  const start = `while [ $# -gt 1 ]; do
  case "$1" in --output) output=$2 ;; --input) input=$2 ;; esac
  shift
done
case "$input" in
  *SYNTHESIZE-METADATA*) cat metadata.json > "$output" ;;
  *) ${onCall} ;;
esac
`;
  const metadata = steps.map(step => ({ paramsJsonSchema: { type: "object" }, ...step }));
  const made = new Repository(world, name)
    .write("berth-registry.yaml", "build: sh build.sh\nstart: sh start.sh\n")
    .write("build.sh", `${build}\n`)
    .write("start.sh", start)
    .write("metadata.json", JSON.stringify({ status: "SUCCESS", data: { metadata } }));
  made.commit("first");
  return made;
}
