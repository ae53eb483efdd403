import type { ReactNode } from "react";
import classes from "./home.module.css";

type Props = { title: string; id?: string; count?: number; tone?: "bad" | "warn"; children: ReactNode };

/** A section of Home: a title with a count, and rows. */
export function HomeSection({ title, id, count, tone, children }: Props) {
  return (
    <section id={id} aria-label={title} className={classes.section} data-tone={tone}>
      <h2 className={classes.heading}>
        {title}
        {count !== undefined && <span className={classes.count}>{count}</span>}
      </h2>
      {children}
    </section>
  );
}
