"""Each kind of usage trouble in formats other than the one it was met in (tests/RECORDS.md has the table)."""

# ruff: noqa: E501  # one literal file a line
# fmt: off
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traces.intake.ingest import ingest

Counts = list[tuple[int | None, int | None, int | None]]
FILES: list[tuple[str, Any, str, Counts]] = []


def run(name: str, content: Any, suffix: str = "jsonl", want: Counts | None = None) -> None:
    FILES.append((name, content, suffix, want or []))


T = "2026-08-17T10:0%d:00Z"
# exclusive with totals
ex=[(10,0,9000,100),(8,9000,700,120)]
want=[(9010,0,100),(9708,9000,120)]


def u(names: tuple[str, ...], figures: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(names, (*figures, sum(figures)), strict=True))


N=("input_tokens","cache_read_tokens","cache_write_tokens","output_tokens","total_tokens")
run("table usage object in JSON text (parquet)", pl.DataFrame([{"timestamp":T%k,"session_id":"a","usage":json.dumps(u(N,r))} for k,r in enumerate(ex)]),"parquet",want)
run("table tsv spaces, thousands", "Date\tSession\tInput Tokens\tCache Read Tokens\tCache Write Tokens\tOutput Tokens\tTotal Tokens\n"+"".join(f"{T%k}\ta\t{r[0]}\t{r[1]:,}\t{r[2]:,}\t{r[3]}\t{sum(r):,}\n" for k,r in enumerate(ex)),"tsv",want)
run("llm_pairs exclusive usage with prompt_tokens", [{"timestamp":T%k,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"choices":[{"message":{"role":"assistant","content":"x"}}],"usage":u(("prompt_tokens","cache_read_input_tokens","cache_creation_input_tokens","completion_tokens","total_tokens"),r)}} for k,r in enumerate(ex)],want=want)
run("otel flat exclusive", [{"trace_id":"t","span_id":f"s{k}","start_time":T%k,"end_time":T%(k+1),"name":"chat","attributes":{"gen_ai.operation.name":"chat","gen_ai.request.model":"m",**u(("gen_ai.usage.input_tokens","gen_ai.usage.cache_read.input_tokens","gen_ai.usage.cache_creation.input_tokens","gen_ai.usage.output_tokens","gen_ai.usage.total_tokens"),r)}} for k,r in enumerate(ex)],want=want)
run("array of rows", json.dumps([{"ts":T%k,"session_id":"a",**u(N,r)} for k,r in enumerate(ex)]),"json",want)
run("langfuse disjoint buckets", [{"id":f"g{k}","traceId":f"t{k}","type":"GENERATION","name":"n","startTime":T%k,"endTime":T%k,"model":"m","usageDetails":u(("input","input_cache_read","input_cache_creation","output","total"),r),"parentObservationId":None} for k,r in enumerate(ex)],want=want)
# two names
two=[{"timestamp":T%1,"session_id":"a","model":"m","usage":{"prompt_tokens":2470,"completion_tokens":30,"total_tokens":2500,"prompt_tokens_details":{"cached_tokens":0},"cache_read_input_tokens":2455}}]
run("15 table", two, want=[(2470,2455,30)])
run("15 llm_pairs", [{"timestamp":T%1,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"choices":[{"message":{"role":"assistant","content":"x"}}]},"usage":two[0]["usage"]}], want=[(2470,2455,30)])
run("15b otel", [{"trace_id":"t","span_id":"s","start_time":T%1,"end_time":T%2,"name":"chat","attributes":{"gen_ai.operation.name":"chat","gen_ai.request.model":"m","gen_ai.usage.input_tokens":2470,"gen_ai.usage.output_tokens":30,"gen_ai.usage.cache_read.input_tokens":0,"gen_ai.usage.cache_read_input_tokens":2455}}], want=[(2470,2455,30)])
run("15 langfuse", [{"id":"g","traceId":"t","type":"GENERATION","name":"n","startTime":T%1,"endTime":T%1,"model":"m","usageDetails":{"input":2470,"output":30,"total":2500,"input_cached_tokens":0,"cache_read_input_tokens":2455},"parentObservationId":None}], want=[(2470,2455,30)])
# reasoning inside
g={"promptTokenCount":18000,"candidatesTokenCount":900,"thoughtsTokenCount":700,"totalTokenCount":18900,"cachedContentTokenCount":100}
run("18 gemini_api", [{"method":"generateContent","response":{"responseId":"r","candidates":[],"usageMetadata":g}}], want=[(18000,100,900)])
run("18 table usageMetadata", [{"timestamp":T%1,"session_id":"a","model":"m","usageMetadata":g}], want=[(18000,100,900)])
run("18 llm_pairs gemini", [{"timestamp":T%1,"request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]},"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]}}],"usageMetadata":g}}], want=[(18000,100,900)])
run("xai beside, table", [{"timestamp":T%1,"session_id":"a","model":"grok","usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":160,"completion_tokens_details":{"reasoning_tokens":50}}}], want=[(100,None,60)])
# foreign
f={"input_tokens":1100,"input_tokens_details":{"cached_tokens":896},"cache_creation_input_tokens":0,"output_tokens":10,"total_tokens":1110}
run("25b table responses", [{"timestamp":T%1,"session_id":"a","usage":f}], want=[(1100,896,10)])
run("25b llm_pairs", [{"timestamp":T%1,"request":{"input":"hi"},"response":{"id":"resp_1","output":[],"usage":f}}], want=[(1100,896,10)])
run("25c both names", [{"timestamp":T%1,"session_id":"a","usage":{"input_tokens":1100,"cached_input_tokens":896,"cache_read_input_tokens":896,"cache_creation_input_tokens":0,"output_tokens":10,"total_tokens":1110}}], want=[(1100,896,10)])
run("25 csv", "timestamp,session_id,input_tokens,cached_tokens,cache_creation_input_tokens,output_tokens,total_tokens\n"+T%1+",a,1100,896,0,10,1110\n","csv",[(1100,896,10)])
# provider column, no totals
rows=[{"timestamp":T%1,"session_id":"a","provider":"anthropic","model":"claude","input_tokens":500,"cache_read_tokens":400,"output_tokens":1},{"timestamp":T%2,"session_id":"b","provider":"openai","model":"gpt","input_tokens":500,"cache_read_tokens":400,"output_tokens":1}]
run("provider column jsonl", rows, want=[(900,400,1),(500,400,1)])
run("provider column csv", "timestamp,session_id,provider,model,Input,Cached,Output\n"+T%1+",a,anthropic,claude,500,400,1\n"+T%2+",b,openai,gpt,500,400,1\n","csv",[(900,400,1),(500,400,1)])
# group evidence
rows=[{"timestamp":T%1,"session_id":"a","input_tokens":5000,"cache_read_tokens":3000,"output_tokens":1},{"timestamp":T%2,"session_id":"a","input_tokens":10,"cache_read_tokens":8000,"output_tokens":1}]
run("group evidence no totals", rows, want=[(8000,3000,1),(8010,8000,1)])
run("AI SDK nested", [{"timestamp":T%1,"session_id":"a","usage":{"inputTokens":{"total":1000,"noCache":100,"cacheRead":900,"cacheWrite":0},"outputTokens":{"total":50,"text":20,"reasoning":30}}}], want=[(1000,900,50)])
run("deepseek", [{"timestamp":T%1,"session_id":"a","usage":{"prompt_tokens":1000,"prompt_cache_hit_tokens":900,"prompt_cache_miss_tokens":100,"completion_tokens":5,"total_tokens":1005}}], want=[(1000,900,5)])
run("22 usage beside as text csv", "timestamp,session_id,messages,response,usage\n"+f'{T%1},a,"[{{""role"":""user"",""content"":""hi""}}]",yes,"{{""prompt_tokens"":5254,""completion_tokens"":91,""total_tokens"":5345}}"\n',"csv",[(5254,None,91)])
run("22 parquet JSON strings", pl.DataFrame([{"timestamp":T%1,"request":json.dumps({"messages":[{"role":"user","content":"hi"}]}),"response":json.dumps({"role":"assistant","content":"x"}),"prompt_tokens":5254,"completion_tokens":91,"total_tokens":5345}]),"parquet",[(5254,None,91)])
run("22b usage in row", [{"timestamp":T%1,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"choices":[]},"usage":{"prompt_tokens":5254,"completion_tokens":91}}],want=[(5254,None,91)])
run("openrouter-ish names", [{"timestamp":T%1,"session_id":"a","tokens_prompt":1000,"tokens_completion":5,"native_tokens_cached":900}],want=[(1000,900,5)])
run("cursor fixture", "Timestamp,Model,Input Tokens,Cache Read Tokens,Cache Write Tokens,Output Tokens,Total Tokens\n2026-08-17T10:00:00.000Z,m,\"1,000\",\"3,000\",200,100,\"4,300\"\n","csv",[(4200,3000,100)])


@pytest.mark.parametrize(("name", "content", "suffix", "wanted"), FILES, ids=[name for name, *_ in FILES])
def test_siblings(name: str, content: Any, suffix: str, wanted: Counts, tmp_path: Path) -> None:
    path = tmp_path / f"log.{suffix}"
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    else:
        path.write_text(content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content))
    receipt = ingest([str(path)], tmp_path / "dataset")
    (table,) = (tmp_path / "dataset").glob("**/requests.parquet")
    counts = pl.read_parquet(table).sort("record_ordinal").select("input_tokens", "cache_read_tokens", "output_tokens")
    assert counts.rows() == wanted
    assert len(receipt["evidence"]) == 1
    assert receipt["evidence"][0]["records"] == len(wanted)
