import { NativeSelect, type NativeSelectProps } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useOrg } from "@/data/me";
import { secretsQuery } from "@/data/secrets";

/** `known` is the present choice, which may be a secret that was deleted. */
type Props = NativeSelectProps & { known?: string | null };

/** Chooses the secret that holds a credential, by its name. */
export function SecretSelect({ known, ...rest }: Props) {
  const secrets = useQuery(secretsQuery(useOrg())).data?.data ?? [];
  const names = new Set([...secrets.map(each => each.name), ...(known ? [known] : [])]);
  return (
    <NativeSelect
      label="Secret with the credential"
      data={[{ value: "", label: "None needed" }, ...[...names].map(name => ({ value: name, label: name }))]}
      {...rest}
    />
  );
}
