import {
  Alert,
  Button,
  Group,
  NativeSelect,
  NumberInput,
  SimpleGrid,
  Stack,
  Switch,
  TextInput,
} from "@mantine/core";
import { type UseFormReturnType, useForm } from "@mantine/form";
import { IconSend } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { AnalysisSettings } from "@/api/types";
import { useSaveAnalysisSettings } from "@/data/analyses";
import { useOrg } from "@/data/me";
import { secretsQuery } from "@/data/secrets";
import { ProblemPanel } from "@/ui/Problem";
import { toast } from "@/ui/toast";

const PROVIDERS = [
  { value: "none", label: "Rules only: nothing leaves this server" },
  { value: "anthropic", label: "Rules, then Anthropic" },
  { value: "openai", label: "Rules, then OpenAI, or a server that speaks its API" },
];

const OWN_ADDRESS: Record<string, string> = {
  anthropic: "https://api.anthropic.com",
  openai: "https://api.openai.com/v1",
};

function valuesOf(settings: AnalysisSettings) {
  const { provider, permitDefinition, outputTokensMax, monthlyTokensMax, timeoutSeconds } = settings;
  return {
    provider: provider as string,
    model: settings.model ?? "",
    baseUrl: settings.baseUrl ?? "",
    apiKeySecret: settings.apiKeySecret ?? "",
    outputTokensMax: outputTokensMax as number | string,
    monthlyTokensMax: monthlyTokensMax as number | string,
    timeoutSeconds: timeoutSeconds as number | string,
    permitDefinition,
  };
}

type Values = ReturnType<typeof valuesOf>;
type Props = { settings: AnalysisSettings; mayWrite: boolean };

export function SettingsForm({ settings, mayWrite }: Props) {
  const org = useOrg();
  const save = useSaveAnalysisSettings(org);
  const form = useForm<Values>({
    initialValues: valuesOf(settings),
    validate: {
      model: (model, { provider }) => (provider !== "none" && model.trim() === "" ? "Name the model" : null),
    },
  });
  const { values } = form;
  const asksModel = values.provider !== "none";
  const number = (value: number | string) => (value === "" ? undefined : Number(value));
  const submit = form.onSubmit(chosen =>
    save.mutate(
      {
        provider: chosen.provider as AnalysisSettings["provider"],
        model: asksModel ? chosen.model.trim() : undefined,
        baseUrl: (asksModel && chosen.baseUrl.trim()) || undefined,
        apiKeySecret: (asksModel && chosen.apiKeySecret) || undefined,
        outputTokensMax: number(chosen.outputTokensMax),
        monthlyTokensMax: number(chosen.monthlyTokensMax),
        timeoutSeconds: number(chosen.timeoutSeconds),
        permitDefinition: chosen.permitDefinition,
      },
      { onSuccess: () => toast.success("Saved. It counts from the next failure on.") },
    ),
  );
  return (
    <form onSubmit={submit}>
      <Stack>
        <NativeSelect
          label="Who is asked"
          data={PROVIDERS}
          disabled={!mayWrite}
          {...form.getInputProps("provider")}
        />
        {asksModel && <Model form={form} disabled={!mayWrite} />}
        <Switch
          label="Suggested fixes may change pipeline definitions, below .berth/"
          disabled={!mayWrite}
          {...form.getInputProps("permitDefinition", { type: "checkbox" })}
        />
        {save.error != null && <ProblemPanel error={save.error} compact />}
        {mayWrite && (
          <Group>
            <Button type="submit" loading={save.isPending} disabled={!form.isDirty()}>
              Save
            </Button>
          </Group>
        )}
      </Stack>
    </form>
  );
}

function Model({ form, disabled }: { form: UseFormReturnType<Values>; disabled: boolean }) {
  const secrets = useQuery(secretsQuery(useOrg())).data?.data ?? [];
  const known = secrets.filter(each => each.scope.type === "organization").map(each => each.name);
  const chosen = form.values.apiKeySecret;
  const names = chosen === "" || known.includes(chosen) ? known : [chosen, ...known];
  return (
    <>
      <Alert color="tide" icon={<IconSend />} title="What is sent">
        The type and the script of the step that failed, how it ended, and the end of its log, with secrets
        masked. Every deployment page shows it before, and keeps what was sent.
      </Alert>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label="Model"
          required
          maxLength={200}
          disabled={disabled}
          {...form.getInputProps("model")}
        />
        <TextInput
          label="Address"
          placeholder={OWN_ADDRESS[form.values.provider]}
          maxLength={2048}
          disabled={disabled}
          {...form.getInputProps("baseUrl")}
        />
        <NativeSelect
          label="Secret with the key"
          data={[{ value: "", label: "None needed" }, ...names.map(name => ({ value: name, label: name }))]}
          disabled={disabled}
          {...form.getInputProps("apiKeySecret")}
        />
        <NumberInput
          label="Seconds for one call"
          min={1}
          max={300}
          allowDecimal={false}
          disabled={disabled}
          {...form.getInputProps("timeoutSeconds")}
        />
        <NumberInput
          label="Tokens in 30 days, at most"
          description="Beyond it the rules answer"
          min={0}
          max={1_000_000_000}
          allowDecimal={false}
          thousandSeparator=","
          disabled={disabled}
          {...form.getInputProps("monthlyTokensMax")}
        />
        <NumberInput
          label="Tokens of one answer, at most"
          description="256 to 32,000"
          min={256}
          max={32_000}
          allowDecimal={false}
          thousandSeparator=","
          disabled={disabled}
          {...form.getInputProps("outputTokensMax")}
        />
      </SimpleGrid>
    </>
  );
}
