import { formatInitials, personTone } from "@/format/person";
import styles from "./person.module.css";

/** Initials of a person in their colour. Decorative: show the name next to it, or as its title. */
export function PersonAvatar({ name, size = 20 }: { name: string; size?: number }) {
  return (
    <span
      className={styles.avatar}
      style={{
        width: size,
        height: size,
        fontSize: size * 0.45,
        background: `var(--berth-person-${personTone(name)})`,
      }}
      title={name}
      aria-hidden
    >
      {formatInitials(name)}
    </span>
  );
}
