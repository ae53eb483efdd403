import { lazy, type ReactNode, Suspense } from "react";

const VirtualRows = lazy(() => import("./VirtualRows"));

/** Above this number, only the rows in view are rendered. */
const RENDERED_MAX = 40;

type Props<T> = { label: string; items: T[]; keyOf: (item: T) => string; children: (item: T) => ReactNode };

/** List of rows, virtualized if it is long. */
export function RowList<T>({ label, items, keyOf, children }: Props<T>) {
  const first = items.slice(0, RENDERED_MAX).map(each => <div key={keyOf(each)}>{children(each)}</div>);
  return (
    // biome-ignore lint/a11y/useSemanticElements: the virtual list puts its rows into elements of its own
    <div role="list" aria-label={label}>
      {items.length <= RENDERED_MAX ? (
        first
      ) : (
        <Suspense fallback={first}>
          <VirtualRows
            keys={items.map(keyOf)}
            row={index => {
              const item = items[index];
              return item && children(item);
            }}
          />
        </Suspense>
      )}
    </div>
  );
}
