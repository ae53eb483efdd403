import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { LoadingRows } from "./LoadingRows";
import { ProblemPanel } from "./ProblemPanel";

type Props<T> = { of: UseQueryResult<T>; loading?: ReactNode; children: (data: T) => ReactNode };

/** Renders the states of a query: loading, error, data. */
export function QueryResult<T>({ of, loading, children }: Props<T>) {
  if (of.data !== undefined) return <>{children(of.data)}</>;
  if (of.isError) return <ProblemPanel error={of.error} retry={() => of.refetch()} />;
  return <>{loading ?? <LoadingRows />}</>;
}
