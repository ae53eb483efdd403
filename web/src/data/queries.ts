/** The query cache. Events invalidate it; a stale time limits the effect of missed ones. */
import { QueryClient } from "@tanstack/react-query";
import { problemOf } from "@/api/problem";

const RETRIES_MAX = 2;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      // A refusal is an answer; only a server that is away is asked again.
      retry: (failures, error) => {
        const { status } = problemOf(error);
        return failures < RETRIES_MAX && (status === 0 || status >= 500);
      },
    },
    mutations: { retry: false },
  },
});
