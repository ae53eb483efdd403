import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type Resource, resourceKey } from "./queryKeys";

/** A mutation of an organization's data. Invalidates the queries of the given resources when it settles, also on failure. */
export function useOrgMutation<Input, Output>(
  org: string,
  invalidates: Resource[],
  mutationFn: (input: Input) => Promise<Output>,
  onSuccess?: (output: Output) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn,
    onSuccess,
    onSettled: () =>
      Promise.all(invalidates.map(noun => queries.invalidateQueries({ queryKey: resourceKey(org, noun) }))),
  });
}
