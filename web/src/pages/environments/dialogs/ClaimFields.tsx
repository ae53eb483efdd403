import { NativeSelect, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { TTL_CHOICES } from "./ttl";

const CONTEXT_CHARS_MAX = 1000;

export type ClaimValues = { commitId: string; context: string; ttl: string };

type Props<V> = { form: UseFormReturnType<V>; withoutWhy?: boolean };

/** What every claim asks: what to deploy, why, and for how long. */
export function ClaimFields<V extends ClaimValues>({ form, withoutWhy }: Props<V>) {
  return (
    <>
      <TextInput
        label="Commit, branch or tag"
        description="Deployed at once. Leave it empty to claim only."
        placeholder="main"
        data-autofocus
        {...form.getInputProps("commitId")}
      />
      {!withoutWhy && (
        <Textarea
          label="Why"
          description="Others see this."
          placeholder="load test of the new cart"
          maxLength={CONTEXT_CHARS_MAX}
          autosize
          minRows={1}
          maxRows={4}
          {...form.getInputProps("context")}
        />
      )}
      <NativeSelect label="For how long" data={TTL_CHOICES} {...form.getInputProps("ttl")} />
    </>
  );
}
