/** The agent of `../../../agent.rs` as a durable function: a conversation is a loop. */

import { type Ctx, EffectFailed, type LlmChat, durable, program } from "mundi-sdk";
import type { Effects } from "./types.ts";

const TOOL = {
  type: "function",
  function: {
    name: "fetch",
    description: "Fetches a page.",
    parameters: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
  },
};

/** The text of a page. An error is told to the model, too: it may know what to do. */
async function page(ctx: Ctx<Effects>, url: string): Promise<string> {
  try {
    return (await ctx.effect("http.request", { url })).text();
  } catch (error) {
    if (error instanceof EffectFailed) return error.message;
    throw error;
  }
}

async function ask(ctx: Ctx<Effects>, question: string): Promise<string> {
  const messages: LlmChat["messages"] = [{ role: "user", content: question }];
  for (;;) {
    const { content, tool_calls } = await ctx.effect("llm.chat", { messages, options: { tools: [TOOL] } });
    if (tool_calls.length === 0) return content;
    const wanted = tool_calls.map(({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } }));
    messages.push({ role: "assistant", content, tool_calls: wanted });
    // All at once; their results are in the order of the calls.
    const pages = await ctx.all(tool_calls.map((call) => page(ctx, JSON.parse(call.arguments).url)));
    tool_calls.forEach(({ id }, index) => messages.push({ role: "tool", tool_call_id: id, content: pages[index]! }));
  }
}

export default program<Effects>({ ask: durable(ask) });
