import { Button, Divider, Stack } from "@mantine/core";
import { useStartProviderLogin } from "@/data/providers";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { providers: { name: string; label: string }[]; next: string };

/** One button per identity provider. */
export function ProviderButtons({ providers, next }: Props) {
  const start = useStartProviderLogin();
  if (providers.length === 0) return null;
  return (
    <Stack>
      {providers.map(({ name, label }) => (
        <Button
          key={name}
          variant="default"
          size="md"
          fullWidth
          loading={(start.isPending || start.isSuccess) && start.variables.provider === name}
          onClick={() => start.mutate({ provider: name, next })}
        >
          Log in with {label}
        </Button>
      ))}
      {start.isError && <ProblemPanel error={start.error} compact />}
      <Divider label="or" />
    </Stack>
  );
}
