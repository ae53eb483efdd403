import { Page } from "@/ui/Page";

export function InsightsPage() {
  return <Page title="Insights">{null}</Page>;
}
