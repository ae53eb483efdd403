import { FirstSteps } from "@/ui/first-steps/FirstSteps";
import { Page } from "@/ui/Page";

/** The first run: from an empty organization to the first deployment. */
export function Welcome() {
  return (
    <Page title="Welcome aboard" lead="From an empty harbour to the first deployment.">
      <FirstSteps />
    </Page>
  );
}
