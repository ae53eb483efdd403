/** A registry of custom steps in the shell, as a real repository. */
import { Repository } from "./repository";
import type { World } from "./world";

export type Made = { stepType: string; paramsJsonSchema?: object; [name: string]: unknown };

/** `onCall` is shell text that a step runs: `$input` is its task, `$output` the file for its answer. */
export function registry(
  world: World,
  name: string,
  steps: Made[],
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
