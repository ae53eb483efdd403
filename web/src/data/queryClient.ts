/** The query cache. Events invalidate it; the stale time limits the effect of missed events. */
import { QueryClient } from "@tanstack/react-query";
import { toProblem } from "@/api/problem";

const RETRIES_MAX = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      // Retry only network and server errors.
      retry: (failures, error) => {
        const { status } = toProblem(error);
        return failures < RETRIES_MAX && (status === 0 || status >= 500);
      },
    },
    mutations: { retry: false },
  },
});
