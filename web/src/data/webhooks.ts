/** Webhooks and their deliveries. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, body, data } from "@/api/client";
import type { components } from "@/api/schema.gen";
import { key } from "./keys";

const LIST_MAX = 200;
const DELIVERIES_SHOWN_MAX = 50;
const ALL = "/api/v1/organizations/{orgId}/webhooks";
const ONE = `${ALL}/{webhookId}` as const;

export function webhooksQuery(org: string) {
  return queryOptions({
    queryKey: key(org, "webhooks"),
    queryFn: () => body(api.GET(ALL, { params: { path: { orgId: org }, query: { limit: LIST_MAX } } })),
  });
}

export function webhookQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: key(org, "webhooks", webhookId),
    queryFn: () => data(api.GET(ONE, { params: { path: { orgId: org, webhookId } } })),
  });
}

/** Every event of the organization may become a delivery, so this looks again by itself. */
const LOOK_AGAIN_MS = 5_000;

export function deliveriesQuery(org: string, webhookId: string) {
  return queryOptions({
    queryKey: key(org, "deliveries", webhookId),
    queryFn: () =>
      body(
        api.GET(`${ONE}/deliveries`, {
          params: { path: { orgId: org, webhookId }, query: { limit: DELIVERIES_SHOWN_MAX } },
        }),
      ),
    refetchInterval: LOOK_AGAIN_MS,
  });
}

function useWebhooksChange<Input, Output>(org: string, change: (input: Input) => Promise<Output>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () =>
      Promise.all(
        (["webhooks", "deliveries"] as const).map(noun =>
          queries.invalidateQueries({ queryKey: key(org, noun) }),
        ),
      ),
  });
}

type Schemas = components["schemas"];

export function useCreateWebhook(org: string) {
  return useWebhooksChange(org, (webhook: Schemas["WebhookNew"]) =>
    data(api.POST(ALL, { params: { path: { orgId: org } }, body: webhook })),
  );
}

export function useChangeWebhook(org: string, webhookId: string) {
  return useWebhooksChange(org, (change: Schemas["WebhookPatch"]) =>
    data(api.PATCH(ONE, { params: { path: { orgId: org, webhookId } }, body: change })),
  );
}

export function useDeleteWebhook(org: string) {
  return useWebhooksChange(org, (webhookId: string) =>
    data(api.DELETE(ONE, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function usePing(org: string, webhookId: string) {
  return useWebhooksChange(org, () =>
    data(api.POST(`${ONE}/ping`, { params: { path: { orgId: org, webhookId } } })),
  );
}

/** A new signing secret, shown in this answer and never again. */
export function useRotateSecret(org: string, webhookId: string) {
  return useWebhooksChange(org, () =>
    data(api.POST(`${ONE}/rotate`, { params: { path: { orgId: org, webhookId } } })),
  );
}

export function useRedeliver(org: string, webhookId: string) {
  return useWebhooksChange(org, (deliveryId: string) =>
    data(
      api.POST(`${ONE}/deliveries/{deliveryId}/redeliver`, {
        params: { path: { orgId: org, webhookId, deliveryId } },
      }),
    ),
  );
}
