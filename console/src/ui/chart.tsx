import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock } from '../lib/time';
import { useSettings } from '../lib/settings';

interface Props {
  title: string;
  unit: string;
  times: number[];
  values: (number | null)[];
}

export function Chart({ title, unit, times, values }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const { theme } = useSettings();
  useEffect(() => {
    const element = place.current!;
    // A custom property is told as it is written; as the colour of an element it is resolved for the theme.
    const color = (name: string) => {
      element.style.color = `var(${name})`;
      return getComputedStyle(element).color;
    };
    const axis = { stroke: color('--ink-2'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height: 140,
        legend: { show: false },
        cursor: { y: false },
        scales: { y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(1, (max ?? 1) * 1.15)] } },
        axes: [{ ...axis, space: 70, size: 26, values: (_, times) => times.map((at) => clock(new Date(at * 1_000).toISOString()).slice(0, 8)) }, { ...axis, size: 48 }],
        series: [{}, { stroke: color('--accent'), width: 2, fill: color('--accent-soft'), points: { show: false } }],
      },
      [times, values] as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 140 }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
    };
  }, [theme]);
  useEffect(() => plot.current?.setData([times, values] as uPlot.AlignedData), [times, values]);
  const newest = values.findLast((value) => value !== null);
  return (
    <figure class="chart panel">
      <figcaption>
        {title} <strong>{newest === undefined || newest === null ? '–' : `${newest < 10 ? newest.toFixed(1) : Math.round(newest).toLocaleString('en-US')} ${unit}`}</strong>
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}
