import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useOrg } from "@/data/me";
import { useRegisterRepository } from "@/data/repositories";
import { Confirm } from "@/ui/Confirm";
import { SecretSelect } from "@/ui/fields/SecretSelect";

const POLLS = [
  { value: "10", label: "10 seconds" },
  { value: "60", label: "minute" },
  { value: "300", label: "5 minutes" },
  { value: "3600", label: "hour" },
];

export function NewRepository({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const register = useRegisterRepository(org);
  const form = useForm({ initialValues: { url: "", credential: "", poll: "60" } });
  const { url, credential, poll } = form.values;
  return (
    <Confirm
      onClose={onClose}
      title="Register a repository"
      action="Register"
      mutation={register}
      disabled={url.trim() === ""}
      input={{ url: url.trim(), credential: credential || undefined, pollSeconds: Number(poll) }}
      success={() => "Registered. Its pipelines appear in a moment."}
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
      <SecretSelect {...form.getInputProps("credential")} />
      <NativeSelect label="Look every" data={POLLS} {...form.getInputProps("poll")} />
    </Confirm>
  );
}
