import { Page } from "@/ui/Page";

export function Events() {
  return <Page title="Events">{null}</Page>;
}
