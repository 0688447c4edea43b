// Who the user is to the server, and which universe is looked at.
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Caller } from '../api/client';

export interface Session {
  caller: Caller;
  universe: string;
  /** The names of all that the token may see. */
  universes: string[];
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  return useContext(SessionContext)!;
}

export function useUniverses(): string[] {
  return useSession().universes;
}

export type Verb = 'read' | 'send' | 'admin' | 'metrics';

/** What a button needs to be shown. */
export function useMay(): (verb: Verb) => boolean {
  const { caller } = useSession();
  return (verb) => caller.can.includes(verb) || (verb === 'metrics' && caller.can.includes('read') && !caller.universe);
}
