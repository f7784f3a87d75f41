package main

import (
	"bytes"
	"context"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

// openSearch opens bulk indexers of opensearch-go, which share a client.
func openSearch(job job) (func() (indexer, error), error) {
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
		Addresses:           []string{job.URL},
		CompressRequestBody: true,
		RetryOnStatus:       busy,
		MaxRetries:          retries,
		RetryBackoff:        func(int) time.Duration { return pause },
	}})
	if err != nil {
		return nil, err
	}
	return func() (indexer, error) {
		bulk, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{
			Client:     client,
			Index:      job.Index,
			NumWorkers: job.Concurrency,
			FlushBytes: job.Chunk * documentBytes,
		})
		return openSearchIndexer{bulk}, err
	}, nil
}

type openSearchIndexer struct{ bulk opensearchutil.BulkIndexer }

func (i openSearchIndexer) add(action action, done func(result)) error {
	item := opensearchutil.BulkIndexerItem{
		Action:     action.Op,
		DocumentID: action.ID,
		OnSuccess: func(_ context.Context, _ opensearchutil.BulkIndexerItem, item opensearchapi.BulkRespItem) {
			done(result{status: item.Status, item: item})
		},
		OnFailure: func(_ context.Context, _ opensearchutil.BulkIndexerItem, item opensearchapi.BulkRespItem, err error) {
			done(result{status: item.Status, item: item, err: err})
		},
	}
	if action.Body != nil {
		item.Body = bytes.NewReader(action.Body)
	}
	return i.bulk.Add(context.Background(), item)
}

func (i openSearchIndexer) close() error { return i.bulk.Close(context.Background()) }
