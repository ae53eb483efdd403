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
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";

const PROVIDERS = [
  { value: "none", label: "Rules only (nothing leaves this server)" },
  { value: "anthropic", label: "Rules, then Anthropic" },
  { value: "openai", label: "Rules, then OpenAI or a compatible API" },
];

const DEFAULT_URL: Record<string, string> = {
  anthropic: "https://api.anthropic.com",
  openai: "https://api.openai.com/v1",
};

function toFormValues(settings: AnalysisSettings) {
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

type Values = ReturnType<typeof toFormValues>;
type Props = { settings: AnalysisSettings; mayWrite: boolean };

/** Form for the analyzer and its limits. */
export function AnalysisSettingsForm({ settings, mayWrite }: Props) {
  const org = useOrg();
  const save = useSaveAnalysisSettings(org);
  const form = useForm<Values>({
    initialValues: toFormValues(settings),
    validate: {
      model: (model, { provider }) => (provider !== "none" && model.trim() === "" ? "Enter a model" : null),
    },
  });
  const { values } = form;
  const usesModel = values.provider !== "none";
  const number = (value: number | string) => (value === "" ? undefined : Number(value));
  const submit = form.onSubmit(chosen =>
    save.mutate(
      {
        provider: chosen.provider as AnalysisSettings["provider"],
        model: usesModel ? chosen.model.trim() : undefined,
        baseUrl: (usesModel && chosen.baseUrl.trim()) || undefined,
        apiKeySecret: (usesModel && chosen.apiKeySecret) || undefined,
        outputTokensMax: number(chosen.outputTokensMax),
        monthlyTokensMax: number(chosen.monthlyTokensMax),
        timeoutSeconds: number(chosen.timeoutSeconds),
        permitDefinition: chosen.permitDefinition,
      },
      { onSuccess: () => toast.success("Saved. Applies to the next analysis.") },
    ),
  );
  return (
    <form onSubmit={submit}>
      <Stack>
        <NativeSelect
          label="Analyzer"
          data={PROVIDERS}
          disabled={!mayWrite}
          {...form.getInputProps("provider")}
        />
        {usesModel && <ModelFields form={form} disabled={!mayWrite} />}
        <Switch
          label="Allow suggested fixes to change pipeline definitions in .berth/"
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

function ModelFields({ form, disabled }: { form: UseFormReturnType<Values>; disabled: boolean }) {
  const secrets = useQuery(secretsQuery(useOrg())).data?.data ?? [];
  const known = secrets.filter(each => each.scope.type === "organization").map(each => each.name);
  const chosen = form.values.apiKeySecret;
  const names = chosen === "" || known.includes(chosen) ? known : [chosen, ...known];
  return (
    <>
      <Alert color="tide" icon={<IconSend />} title="What is sent">
        The type and script of the failed step, its exit status and the end of its log, with secrets masked.
        You can preview the request on the deployment page, which also keeps what was sent.
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
          label="Base URL"
          placeholder={DEFAULT_URL[form.values.provider]}
          maxLength={2048}
          disabled={disabled}
          {...form.getInputProps("baseUrl")}
        />
        <NativeSelect
          label="API key"
          description="Secret that contains the key"
          data={[{ value: "", label: "None" }, ...names.map(name => ({ value: name, label: name }))]}
          disabled={disabled}
          {...form.getInputProps("apiKeySecret")}
        />
        <NumberInput
          label="Timeout in seconds"
          min={1}
          max={300}
          allowDecimal={false}
          disabled={disabled}
          {...form.getInputProps("timeoutSeconds")}
        />
        <NumberInput
          label="Token limit per 30 days"
          description="Only rules are used above it"
          min={0}
          max={1_000_000_000}
          allowDecimal={false}
          thousandSeparator=","
          disabled={disabled}
          {...form.getInputProps("monthlyTokensMax")}
        />
        <NumberInput
          label="Token limit per response"
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
