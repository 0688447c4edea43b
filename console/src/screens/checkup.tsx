// What `mundi doctor` says about a server that runs, from the same answers of the API.
import { api, Refusal, type Checkup as Process, type Summary, type Worker } from '../api/client';
import { useLoad } from '../api/use';
import { mundi } from '../lib/commands';
import { to } from '../lib/route';
import { useMay, useSession } from '../lib/session';
import { count, short } from '../lib/text';
import { Badge, Copy, Loading } from '../ui/basics';

type Verdict = 'ok' | 'look' | 'wrong';

interface Finding {
  check: string;
  verdict: Verdict;
  found: string;
  /** What to do about it, and where. */
  advice?: string;
  link?: string;
}

const BADGES: Record<Verdict, string> = { ok: 'ready', look: 'paused', wrong: 'failed' };

/** The findings, the worst first. */
export function findings(universe: string, workers: Worker[], summary: Summary, notReady: string | undefined, process: Process | undefined): Finding[] {
  const living = workers.filter((worker) => !worker.draining);
  const room = living.reduce((sum, worker) => sum + Math.max(0, worker.worlds_max - worker.worlds), 0);
  const { worlds, dead_letters } = summary;
  const of = (state: string) => to(['u', universe, 'worlds'], { state });
  const more = worlds.more ? ' or more' : '';
  const all: Finding[] = [
    notReady === undefined
      ? { check: 'Server', verdict: 'ok', found: 'ready: its engine answers' }
      : { check: 'Server', verdict: 'look', found: `not ready: ${notReady}`, advice: 'It drains, or its engine does not answer.' },
    living.length > 0
      ? { check: 'Workers', verdict: 'ok', found: count(living.length, 'worker') }
      : { check: 'Workers', verdict: 'wrong', found: 'none runs worlds', advice: 'Start a process with the role world.' },
    room > 0 || living.length === 0
      ? { check: 'Room for worlds', verdict: 'ok', found: `room for ${room.toLocaleString('en-US')} more busy worlds` }
      : { check: 'Room for worlds', verdict: 'wrong', found: 'no worker has room: worlds wait', advice: 'Start another worker, or raise node.worlds_max.' },
    worlds.failed === 0
      ? { check: 'Failed steps', verdict: 'ok', found: 'none' }
      : { check: 'Failed steps', verdict: 'look', found: `${count(worlds.failed, 'world')}${more}`, advice: 'See why, and mend the program.', link: of('failed') },
    worlds.on_hold === 0
      ? { check: 'Worlds on hold', verdict: 'ok', found: 'none' }
      : { check: 'Worlds on hold', verdict: 'look', found: `${count(worlds.on_hold, 'world')}${more}`, advice: 'Retry, skip or upgrade each.', link: of('on_hold') },
    dead_letters === 0
      ? { check: 'Dead letters', verdict: 'ok', found: 'none' }
      : { check: 'Dead letters', verdict: 'look', found: count(dead_letters, 'letter'), advice: 'See why; replay or drop them.', link: to(['u', universe, 'dead-letters']) },
  ];
  const ofProcess = (process?.findings ?? []).map(({ check, verdict, found, advice }): Finding => ({ check: capital(check), verdict: verdict as Verdict, found, advice: advice ? capital(advice) : undefined }));
  all.splice(1, 0, ...ofProcess);
  const rank: Verdict[] = ['wrong', 'look', 'ok'];
  return all.sort((a, b) => rank.indexOf(a.verdict) - rank.indexOf(b.verdict));
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export function Checkup({ workers }: { workers: Worker[] | undefined }) {
  const { universe } = useSession();
  const summary = useLoad((signal) => api.get<Summary>('/v1/u/{universe}/summary', { path: { universe }, signal }), [universe], 5_000);
  const ready = useLoad(
    (signal) => api.text('/readyz', { signal }).then(() => ({}), (error: Refusal) => ({ why: error.message })),
    [],
    5_000,
  );
  // The process is everybody's: a token for one universe is told nothing about it.
  const mayProcess = useMay()('metrics');
  const process = useLoad(async (signal) => (mayProcess ? api.get<Process>('/v1/checkup', { signal }) : undefined), [mayProcess], 15_000);
  const doctor = mundi(universe, 'doctor');
  return (
    <section>
      {process.value && <ProcessFacts of={process.value} />}
      <h2>Check-up</h2>
      {!(workers && summary.value && ready.value) && !summary.error && <Loading what="the check-up" />}
      {workers && summary.value && ready.value && (
        <div class="scroll panel" tabIndex={0} role="region" aria-label="Check-up">
          <table>
            <thead>
              <tr>
                <th>Check</th>
                <th>Verdict</th>
                <th>Found</th>
                <th>What to do</th>
              </tr>
            </thead>
            <tbody>
              {findings(universe, workers, summary.value, (ready.value as { why?: string }).why, process.value).map(({ check, verdict, found, advice, link }) => (
                <tr key={check}>
                  <td>{check}</td>
                  <td>
                    <Badge of={BADGES[verdict]}>{verdict}</Badge>
                  </td>
                  <td>{found}</td>
                  <td>{link ? <a href={link}>{advice}</a> : advice}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="row mute">
        The same, and the checks of a data folder or a fleet’s configuration: <code>{doctor}</code> <Copy text={doctor} what="command" />
      </p>
    </section>
  );
}

/** What the process that answers is, and what it stands on. */
function ProcessFacts({ of }: { of: Process }) {
  return (
    <dl class="facts panel pad" aria-label="The process that answers">
      <div>
        <dt>This process</dt>
        <dd>
          <code>{short(of.worker, 16)}</code> <Copy text={of.worker} /> {of.draining && <Badge of="draining" />}
        </dd>
      </div>
      <div>
        <dt>Roles</dt>
        <dd>{of.roles.join(', ')}</dd>
      </div>
      <div>
        <dt>Engine</dt>
        <dd>{of.engine}</dd>
      </div>
      <div>
        <dt>Object store</dt>
        <dd>{STORES[of.objects] ?? of.objects}</dd>
      </div>
      <div>
        <dt>Version</dt>
        <dd>{of.version}</dd>
      </div>
    </dl>
  );
}

const STORES: Record<string, string> = {
  LocalFileSystem: 'a folder',
  AmazonS3: 'S3',
  GoogleCloudStorage: 'Google Cloud Storage',
  MicrosoftAzure: 'Azure Blob Storage',
  InMemory: 'memory',
};
