import { useMutation, useQueryClient } from "@tanstack/react-query";
import { key, type Noun } from "./keys";

/** Changes data of an organization. Queries of the given nouns are invalidated when it settles, also after a failure. */
export function useOrgMutation<Input, Output>(
  org: string,
  invalidates: Noun[],
  mutationFn: (input: Input) => Promise<Output>,
  onSuccess?: (output: Output) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn,
    onSuccess,
    onSettled: () =>
      Promise.all(invalidates.map(noun => queries.invalidateQueries({ queryKey: key(org, noun) }))),
  });
}
