import { Page } from "@/ui/Page";

export function Repositories() {
  return <Page title="Repositories">{null}</Page>;
}
