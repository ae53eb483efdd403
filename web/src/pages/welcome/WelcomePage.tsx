import { Page } from "@/ui/Page";
import { SetupSteps } from "@/ui/setup/SetupSteps";

/** Setup steps of a new organization. */
export function WelcomePage() {
  return (
    <Page title="Get started" lead="Set up your first deployment">
      <SetupSteps />
    </Page>
  );
}
