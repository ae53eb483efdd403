import { Page } from "@/ui/Page";

export function Welcome() {
  return <Page title="Welcome">{null}</Page>;
}
