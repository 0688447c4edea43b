// What had no receipt yet, and which timers had not fired, at the height under the slider.
import type { Effect, Open, Step } from '../../api/client';
import { gist, labelled } from '../../lib/text';
import { Badge, Empty, Id, Time } from '../../ui/basics';
import { EffectActions } from '../effect-actions';

export function OpenWork({ step, select, now, effects, reload }: { step: Step; select: (height: number) => void; now: boolean; effects: Effect[]; reload: () => void }) {
  const queued = new Map(effects.map((effect) => [effect.intent, effect]));
  if (step.open_intents_total + step.timers_total === 0) {
    return <Empty title="Nothing was open at this height">Every effect that the program had asked for had its receipt, and no timer was set.</Empty>;
  }
  return (
    <div class="open-work">
      {step.open_intents_total > 0 && (
        <section>
          <h2>Effects without a receipt ({step.open_intents_total})</h2>
          <ul class="cards">
            {step.open_intents.map((open) => (
              <li key={open.intent}>
                <One open={open} select={select} />
                {now && queued.has(open.intent) && (
                  <p>
                    <Badge of={queued.get(open.intent)!.stage} /> <EffectActions effect={queued.get(open.intent)!} done={reload} />
                  </p>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {step.timers_total > 0 && (
        <section>
          <h2>Timers ({step.timers_total})</h2>
          <ul class="cards">
            {step.timers.map((open) => (
              <li key={open.intent}>
                <One open={open} select={select} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function One({ open, select }: { open: Open; select: (height: number) => void }) {
  const params = open.params as { due?: string; payload?: unknown } | undefined;
  const isTimer = open.kind === 'timer.set';
  return (
    <>
      <p>
        <strong>{isTimer ? labelled(open.label) || 'timer' : open.kind}</strong>{' '}
        {isTimer ? (
          <>
            due <Time at={params?.due} /> (<Time at={params?.due} as="full" />)
          </>
        ) : (
          <span class="mute">{labelled(open.label)}</span>
        )}
      </p>
      <p>
        asked for at{' '}
        <button type="button" class="link" onClick={() => select(open.height)}>
          height {open.height}
        </button>{' '}
        <Id id={open.intent} />
      </p>
      <p class="mute mono">{gist(isTimer ? params?.payload : open.params, 200)}</p>
    </>
  );
}
