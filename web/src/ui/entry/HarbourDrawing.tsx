import classes from "./entry.module.css";

/** Background drawing of a harbour. */
export function HarbourDrawing() {
  return (
    <svg
      className={classes.harbour}
      viewBox="0 0 1440 320"
      preserveAspectRatio="xMidYMax slice"
      aria-hidden="true"
    >
      <path className={classes.far} d="M0 190c180-34 330-28 520-6s360 30 540 4 270-20 380-4v136H0z" />
      <g className={classes.boat}>
        <path d="M1010 168h120l-18 34h-84z" />
        <path d="M1066 76v86h-46zM1074 92l40 70h-40z" />
      </g>
      <path className={classes.near} d="M0 226c220-26 420 16 640 14s420-40 800-12v92H0z" />
      <g className={classes.pier}>
        <path d="M0 214h360v12H0z" />
        <path d="M60 226h12v94H60zM180 226h12v94h-12zM300 226h12v94h-12z" />
      </g>
    </svg>
  );
}
