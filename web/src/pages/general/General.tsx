import { Card } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMay, useOrg } from "@/data/me";
import { organizationQuery, useChangeOrganization } from "@/data/organization";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { OrganizationForm } from "./OrganizationForm";

/** The organization's name, and what its steps may reach by default. */
export function General() {
  const org = useOrg();
  const mayWrite = useMay("organization:write");
  const organization = useQuery(organizationQuery(org));
  // Here, because the form starts over with the values that were saved.
  const save = useChangeOrganization(org);
  return (
    <Page title="General" lead="The organization's name, and the network of its steps.">
      <Query of={organization}>
        {found => (
          <Card>
            <OrganizationForm
              key={`${found.name} ${found.defaultNetwork}`}
              organization={found}
              save={save}
              mayWrite={mayWrite}
            />
          </Card>
        )}
      </Query>
    </Page>
  );
}
