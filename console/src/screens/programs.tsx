// Programs: what worlds run, in which versions.
import { api, type Program } from '../api/client';
import { useLoad } from '../api/use';
import { mundi } from '../lib/commands';
import { to } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { Copy, Id, Loading, Problem, Time } from '../ui/basics';

export function Programs() {
  const { universe } = useSession();
  const may = useMay();
  const found = useLoad((signal) => api.get<Program[]>('/v1/u/{universe}/programs', { path: { universe }, signal }), [universe], 10_000);
  if (found.error && !found.value) return <Problem error={found.error} retry={found.reload} />;
  if (!found.value) return <Loading what="programs" />;
  const build = mundi(universe, 'program', 'dev', '.');
  return (
    <div>
      <header class="screen-head">
        <h1>Programs</h1>
        <span class="grow" />
        {may('read') && (
          <a class="button primary" href={to(['u', universe, 'programs', 'rehearse'])}>
            Rehearse an upgrade
          </a>
        )}
      </header>
      <p class="prose">
        The code of worlds. A version never changes; a world runs one until it is upgraded, and its old records are always replayed by the version that wrote them. Build and upload your own with <code>{build}</code> <Copy text={build} what="command" />
      </p>
      <ul class="programs">
        {found.value.map((program) => (
          <li key={program.name} class="panel pad">
            <h2>
              {program.name} {program.built_in && <span class="badge mute">comes with the server</span>}
            </h2>
            <div class="scroll" tabIndex={0} role="region" aria-label={`Versions of ${program.name}`}>
              <table>
                <thead>
                  <tr>
                    <th>Version</th>
                    <th>Given</th>
                    <th>Manifest</th>
                    <th>Code</th>
                    <th>Worlds</th>
                  </tr>
                </thead>
                <tbody>
                  {program.versions.map((version) => (
                    <tr key={version.version}>
                      <td>
                        <strong>{version.name}</strong> {version.version === program.version && <span class="badge good">newest</span>}
                      </td>
                      <td>{version.at_ns === 0 ? 'with the server' : <Time at={version.at} />}</td>
                      <td>
                        <Id id={version.manifest} />
                      </td>
                      <td>
                        <Id id={version.program} />
                      </td>
                      <td>
                        <a href={to(['u', universe, 'worlds'], { program: version.name })}>worlds that run it</a>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {program.versions_total > program.versions.length && <p class="mute">and {program.versions_total - program.versions.length} older ones</p>}
          </li>
        ))}
      </ul>
    </div>
  );
}
