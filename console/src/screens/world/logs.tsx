import { api, type Line, type Page } from '../../api/client';
import { useLoad } from '../../api/use';
import { Empty, Loading, Problem, Time } from '../../ui/basics';

export function Logs({ universe, world, select }: { universe: string; world: string; select: (height: number) => void }) {
  const lines = useLoad((signal) => api.get<Page<Line>>('/v1/u/{universe}/worlds/{world}/logs', { path: { universe, world }, query: { limit: 500 }, signal }), [universe, world], 2_000);
  if (lines.error && !lines.value) return <Problem error={lines.error} />;
  if (!lines.value) return <Loading what="log lines" />;
  if (lines.value.items.length === 0) return <Empty title="The program has logged nothing">Lines that a program logs are kept up to 128 KiB for each world.</Empty>;
  return (
    <ol class="log">
      {lines.value.items.map((line) => (
        <li key={line.number} class={line.level}>
          <Time at={line.at} as="clock" />{' '}
          <button type="button" class="link" onClick={() => select(line.height)}>
            {line.height}
          </button>{' '}
          <strong>{line.level}</strong> {line.text}
        </li>
      ))}
    </ol>
  );
}
