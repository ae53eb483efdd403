import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useOrg } from "@/data/me";
import { useRegisterRepository } from "@/data/repositories";
import { Confirm } from "@/ui/Confirm";
import { SecretSelect } from "@/ui/fields/SecretSelect";

const POLLS = [
  { value: "10", label: "Every 10 seconds" },
  { value: "60", label: "Every minute" },
  { value: "300", label: "Every 5 minutes" },
  { value: "3600", label: "Every hour" },
];

export function NewRepository({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const register = useRegisterRepository(org);
  const form = useForm({ initialValues: { url: "", credential: "", poll: "60" } });
  const { url, credential, poll } = form.values;
  return (
    <Confirm
      onClose={onClose}
      title="Add repository"
      action="Add"
      mutation={register}
      disabled={url.trim() === ""}
      input={{ url: url.trim(), credential: credential || undefined, pollSeconds: Number(poll) }}
      success={() => "Repository added"}
    >
      <Text size="sm" c="dimmed">
        Berth finds its pipelines and deploys the newest commit of each tracked branch.
      </Text>
      <TextInput
        label="URL"
        placeholder="https://git.acme.test/shop.git"
        required
        data-autofocus
        {...form.getInputProps("url")}
      />
      <SecretSelect {...form.getInputProps("credential")} />
      <NativeSelect label="Sync interval" data={POLLS} {...form.getInputProps("poll")} />
    </Confirm>
  );
}
