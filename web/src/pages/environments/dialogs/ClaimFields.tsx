import { NativeSelect } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { type CheckedCommit, CommitInput } from "@/ui/fields/CommitInput";
import { ReasonField } from "@/ui/fields/ReasonField";
import { TTL_CHOICES } from "./ttl";

export type ClaimFormValues = { commitId: string; context: string; ttl: string };

type Props<V> = { form: UseFormReturnType<V>; commit: CheckedCommit; withoutReason?: boolean };

/** Fields of every claim: commit, reason and duration. */
export function ClaimFields<V extends ClaimFormValues>({ form, commit, withoutReason }: Props<V>) {
  return (
    <>
      <CommitInput
        field={commit.field}
        description="Deployed when your session starts. Leave empty to deploy later."
        data-autofocus
        {...form.getInputProps("commitId")}
      />
      {!withoutReason && (
        <ReasonField
          description="Visible to everyone in the organization"
          placeholder="load test of the new cart"
          minRows={1}
          maxRows={4}
          {...form.getInputProps("context")}
        />
      )}
      <NativeSelect label="Duration" data={TTL_CHOICES} {...form.getInputProps("ttl")} />
    </>
  );
}
