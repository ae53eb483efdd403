import { NativeSelect, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { ReasonField } from "@/ui/fields/ReasonField";
import { TTL_CHOICES } from "./ttl";

export type ClaimValues = { commitId: string; context: string; ttl: string };

type Props<V> = { form: UseFormReturnType<V>; withoutReason?: boolean };

/** What every claim asks: what to deploy, why, and for how long. */
export function ClaimFields<V extends ClaimValues>({ form, withoutReason }: Props<V>) {
  return (
    <>
      <TextInput
        label="Commit, branch or tag"
        description="Deployed at once. Leave it empty to claim only."
        placeholder="main"
        data-autofocus
        {...form.getInputProps("commitId")}
      />
      {!withoutReason && (
        <ReasonField
          description="Others see this."
          placeholder="load test of the new cart"
          minRows={1}
          maxRows={4}
          {...form.getInputProps("context")}
        />
      )}
      <NativeSelect label="For how long" data={TTL_CHOICES} {...form.getInputProps("ttl")} />
    </>
  );
}
