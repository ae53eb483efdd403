import { Page } from "@/ui/Page";

export function Members() {
  return <Page title="Members">{null}</Page>;
}
