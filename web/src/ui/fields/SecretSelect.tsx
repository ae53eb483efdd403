import { NativeSelect, type NativeSelectProps } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useOrg } from "@/data/me";
import { secretsQuery } from "@/data/secrets";

/** `known` is the current selection, which may be a deleted secret. */
type Props = NativeSelectProps & { known?: string | null };

/** Selects the secret with a repository credential. */
export function SecretSelect({ known, ...rest }: Props) {
  const secrets = useQuery(secretsQuery(useOrg())).data?.data ?? [];
  const names = new Set([...secrets.map(each => each.name), ...(known ? [known] : [])]);
  return (
    <NativeSelect
      label="Credential"
      description="Secret used to access the repository"
      data={[{ value: "", label: "None" }, ...[...names].map(name => ({ value: name, label: name }))]}
      {...rest}
    />
  );
}
