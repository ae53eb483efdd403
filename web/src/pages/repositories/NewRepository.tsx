import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useOrg } from "@/data/me";
import { useRegisterRepository } from "@/data/repositories";
import { secretsQuery } from "@/data/secrets";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";

const POLLS = [
  { value: "10", label: "10 seconds" },
  { value: "60", label: "minute" },
  { value: "300", label: "5 minutes" },
  { value: "3600", label: "hour" },
];

export function NewRepository({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const register = useRegisterRepository(org);
  const secrets = useQuery(secretsQuery(org)).data?.data ?? [];
  const form = useForm({ initialValues: { url: "", credential: "", poll: "60" } });
  const { url, credential, poll } = form.values;
  return (
    <Confirm
      opened
      onClose={onClose}
      title="Register a repository"
      action="Register"
      pending={register.isPending}
      error={register.error}
      disabled={url.trim() === ""}
      onConfirm={() =>
        register.mutate(
          { url: url.trim(), credential: credential || undefined, pollSeconds: Number(poll) },
          {
            onSuccess: () => {
              tell("Registered. Its pipelines appear in a moment.");
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm" c="dimmed">
        Its pipelines are found, and the head of each one's branch is deployed at once.
      </Text>
      <TextInput
        label="Address"
        placeholder="https://git.acme.test/shop.git"
        required
        data-autofocus
        {...form.getInputProps("url")}
      />
      <NativeSelect
        label="Secret with the credential"
        data={[
          { value: "", label: "None needed" },
          ...secrets.map(each => ({ value: each.name, label: each.name })),
        ]}
        {...form.getInputProps("credential")}
      />
      <NativeSelect label="Look every" data={POLLS} {...form.getInputProps("poll")} />
    </Confirm>
  );
}
