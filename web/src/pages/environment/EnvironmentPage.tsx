import { Page } from "@/ui/Page";

export function EnvironmentPage() {
  return <Page title="Environment">{null}</Page>;
}
