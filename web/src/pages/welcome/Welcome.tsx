import { FirstSteps } from "@/ui/first-steps/FirstSteps";
import { Page } from "@/ui/Page";

/** Setup steps of a new organization. */
export function Welcome() {
  return (
    <Page title="Get started" lead="Set up your first deployment">
      <FirstSteps />
    </Page>
  );
}
