// What can be done to one world or to many at once, with what follows from it.
import { api, Refusal } from '../api/client';
import { command, type Command } from '../lib/commands';
import { count } from '../lib/text';
import type { Action } from '../ui/basics';
import { toast } from '../ui/toast';

interface Chosen {
  world: string;
  name: string;
}

export type Verb = 'pause' | 'resume' | 'retry' | 'skip' | 'archive' | 'unarchive' | 'delete';

export const WORDS: Record<Verb, { label: string; consequence: string; danger?: boolean }> = {
  pause: { label: 'Pause', consequence: 'It takes nothing but commands from now on. What is sent to it waits in its inbox, and nothing is lost.' },
  resume: { label: 'Resume', consequence: 'It goes on with what waits in its inbox.' },
  retry: { label: 'Retry the input', consequence: 'The input that it is on hold at is taken again: useful after an upgrade. Your name is on record for it.' },
  skip: { label: 'Skip the input', consequence: 'The program never sees the one input that the world is on hold at; its caller hears STEP_SKIPPED. Your name is on record for it.', danger: true },
  archive: { label: 'Archive', consequence: 'It takes nothing in until it is taken out of the archive. Its history stays.' },
  unarchive: { label: 'Take out of the archive', consequence: 'It takes events in again.' },
  delete: { label: 'Delete', consequence: 'The world, its journal and its state are deleted for good; its id is never used again. A world that has forks is not deleted (WORLD_HAS_FORKS): delete the forks first.', danger: true },
};

export function worldActions(universe: string, chosen: Chosen[]): Record<Verb, Action> {
  const whom = chosen.length === 1 ? chosen[0]!.name : count(chosen.length, 'world');
  const action = (verb: Verb): Action => {
    const { label, consequence, danger } = WORDS[verb];
    return {
      label,
      danger,
      title: `${label}: ${whom}`,
      consequence: (
        <>
          <p>{consequence}</p>
          {chosen.length > 1 && <p class="mute">{chosen.slice(0, 12).map((it) => it.name).join(', ')}{chosen.length > 12 ? `, and ${chosen.length - 12} more` : ''}</p>}
        </>
      ),
      command: chosen.length === 1 ? commandOf(universe, verb, chosen[0]!.name) : forEach(chosen, commandOf(universe, verb, 'WORLD')),
      run: () => each(chosen, (world) => call(universe, verb, world), label),
    };
  };
  const verbs = Object.keys(WORDS) as Verb[];
  return Object.fromEntries(verbs.map((verb) => [verb, action(verb)])) as Record<Verb, Action>;
}

function commandOf(universe: string, verb: Verb, world: string): Command {
  const words = verb === 'delete' ? ['world', 'delete', world, '--yes'] : ['world', verb, world];
  return verb === 'delete'
    ? command(universe, words, 'DELETE', '/v1/u/{universe}/worlds/{world}', { path: { universe, world } })
    : command(universe, words, 'POST', `/v1/u/{universe}/worlds/{world}/${verb}`, { path: { universe, world } });
}

/** A command for one world, in a loop of the shell. Names and ids need no quotes there. */
export function forEach(chosen: Pick<Chosen, 'world'>[], { mundi, curl }: Command): Command {
  const loop = (one: string) => `for world in ${chosen.map((it) => it.world).join(' ')}; do ${one.replace('WORLD', '$world')}; done`;
  return { mundi: mundi && loop(mundi), curl: loop(curl) };
}

function call(universe: string, verb: Verb, world: string): Promise<unknown> {
  const path = { universe, world };
  if (verb === 'delete') return api.delete('/v1/u/{universe}/worlds/{world}', { path });
  return api.post(`/v1/u/{universe}/worlds/{world}/${verb}`, { path });
}

/** One after the other; those that are refused do not stop the rest. */
async function each(chosen: Chosen[], run: (world: string) => Promise<unknown>, label: string) {
  const refused: string[] = [];
  for (const [index, { world, name }] of chosen.entries()) {
    try {
      await run(world);
    } catch (error) {
      if (chosen.length === 1) throw error;
      refused.push(`${name}: ${(error as Refusal).code}`);
    }
    if (chosen.length > 10) toast(`${label}: ${index + 1} of ${chosen.length}`);
  }
  toast(refused.length === 0 ? `${label}: done${chosen.length > 1 ? ` for ${chosen.length} worlds` : ''}` : `${label}: ${refused.length} refused (${refused.slice(0, 3).join('; ')})`);
}
