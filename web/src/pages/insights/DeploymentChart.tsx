import "uplot/dist/uPlot.min.css";
import { Box, useComputedColorScheme, VisuallyHidden } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import uPlot from "uplot";
import UplotReact from "uplot-react";
import type { DeliveryInsights } from "@/api/types";

const HEIGHT_PX = 240;
const HALF_DAY_S = 12 * 60 * 60;

/** Legend entries are empty until the pointer is on a day. */
function formatDay(_: uPlot, seconds: number | null): string {
  if (seconds === null) return "";
  return new Date(seconds * 1000).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  });
}

function formatCount(_: uPlot, count: number | null): string {
  return count === null ? "" : String(count);
}

function readProperty(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Bar chart of deployments and failures by day, with a table for screen readers. */
export default function DeploymentChart({ days }: { days: DeliveryInsights["days"] }) {
  const { ref, width } = useElementSize();
  const scheme = useComputedColorScheme("light");
  const bars = uPlot.paths.bars?.({ size: [0.7, 40], radius: 0.2 });
  const data: uPlot.AlignedData = [
    days.map(day => Date.parse(day.date) / 1000),
    days.map(day => day.deployments),
    days.map(day => day.failed),
  ];
  const axis = {
    stroke: readProperty("--mantine-color-dimmed"),
    font: `12px ${readProperty("--mantine-font-family")}`,
    grid: { stroke: readProperty("--berth-line"), width: 1 },
  };
  const options: uPlot.Options = {
    width: Math.max(width, 200),
    height: HEIGHT_PX,
    tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    // Half a day on both sides, for the bars of the first and the last day.
    scales: {
      x: { range: (_, min, max) => [min - HALF_DAY_S, max + HALF_DAY_S] },
      y: { range: (_, __, max) => [0, Math.max(4, Math.ceil(max * 1.15))] },
    },
    axes: [axis, { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }],
    series: [
      { label: "Date", value: formatDay },
      {
        label: "Deployments",
        value: formatCount,
        fill: readProperty("--berth-good"),
        stroke: readProperty("--berth-good"),
        width: 0,
        paths: bars,
        points: { show: false },
      },
      {
        label: "Failed",
        value: formatCount,
        fill: readProperty("--berth-bad"),
        stroke: readProperty("--berth-bad"),
        width: 0,
        paths: bars,
        points: { show: false },
      },
    ],
  };
  return (
    <Box ref={ref}>
      <div aria-hidden="true">{width > 0 && <UplotReact key={scheme} options={options} data={data} />}</div>
      <VisuallyHidden>
        <table>
          <caption>Deployments by day</caption>
          <thead>
            <tr>
              <th scope="col">Day</th>
              <th scope="col">Deployments</th>
              <th scope="col">Failed</th>
            </tr>
          </thead>
          <tbody>
            {days.map(day => (
              <tr key={day.date}>
                <th scope="row">{day.date}</th>
                <td>{day.deployments}</td>
                <td>{day.failed}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </VisuallyHidden>
    </Box>
  );
}
